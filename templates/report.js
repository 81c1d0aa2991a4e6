// What the page gains from scripts beside the stacks: sortable tables, copies, downloads. Comes before the other scripts of
// the page, which use xpurun.copy.
(function () {
  "use strict";
  var xpurun = window.xpurun = window.xpurun || {};
  var byId = function (id) { return document.getElementById(id); };

  // --- tables
  function value(row, column) {
    var text = row.cells[column].textContent.trim(), number = parseFloat(text);
    return { text: text, number: isNaN(number) ? Infinity : number };
  }
  document.querySelectorAll("table.sortable:not([data-rows])").forEach(function (table) {
    var heads = table.tHead.rows[0].cells;
    Array.prototype.forEach.call(heads, function (th, column) {
      var button = document.createElement("button");
      button.textContent = th.textContent;
      th.textContent = "";
      th.append(button);
      button.addEventListener("click", function () {
        var down = th.getAttribute("aria-sort") === "ascending";
        Array.prototype.forEach.call(heads, function (other) { other.removeAttribute("aria-sort"); });
        th.setAttribute("aria-sort", down ? "descending" : "ascending");
        var body = table.tBodies[0], rows = Array.prototype.slice.call(body.rows);
        rows.sort(function (a, b) {
          var x = value(a, column), y = value(b, column);
          var order = x.number !== y.number ? x.number - y.number : x.text.localeCompare(y.text);
          return down ? -order : order;
        });
        rows.forEach(function (row) { body.append(row); });
      });
    });
  });

  // --- copying: by the clipboard, by an old command where there is none, by hand at last
  xpurun.copy = function (text, said, where) {
    function done() {
      where.textContent = said;
      setTimeout(function () { where.textContent = ""; }, 4000);
    }
    function otherwise() {
      var area = document.createElement("textarea"), before = document.activeElement;
      area.value = text;
      document.body.append(area);
      area.select();
      var copied = document.execCommand("copy");
      area.remove();
      if (before) before.focus();
      if (copied) done(); else window.prompt(xpurun.t("To be copied"), text);
    }
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, otherwise); else otherwise();
  };
  document.querySelectorAll("button.copy").forEach(function (button) {
    var said = document.createElement("span");
    said.className = "said";
    said.setAttribute("role", "status");
    button.after(said);
    button.hidden = false;
    if (button.closest(".copies")) button.closest(".copies").hidden = false;
    button.addEventListener("click", function () { xpurun.copy(byId(button.dataset.copy).textContent, xpurun.t("copied"), said); });
  });

  // --- what lies beside the page in the run directory, out of the page itself
  function save(name, type, text) {
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: type }));
    link.download = name;
    link.click();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 10000);
  }
  xpurun.pictureFile = function () {
    var svg = document.querySelector("#stage svg").cloneNode(true), style = document.createElementNS(svg.namespaceURI, "style");
    svg.setAttribute("xmlns", svg.namespaceURI);
    style.textContent = document.querySelector("style").textContent;
    svg.prepend(style, document.querySelector(".defs defs").cloneNode(true));
    return new XMLSerializer().serializeToString(svg);
  };
  if (byId("save-svg")) {
    byId("save-svg").addEventListener("click", function () { save("stacks.svg", "image/svg+xml", xpurun.pictureFile()); });
    byId("save-text").addEventListener("click", function () { save("stacks.txt", "text/plain", xpurun.viewText()); });
  }

  // --- a mailed page still gives its data
  if (byId("download")) {
    byId("download").hidden = false;
    byId("download").addEventListener("click", function () {
      xpurun.unpack("report-data").then(function (text) { save("report.json", "application/json", text); });
    });
  }

  // --- ranks: a click on their numbers anywhere leads to their rows, which lead to stacks and logs
  var filter = byId("rank-filter"), ranks = document.querySelector("#ranks table");
  function keepRows() {
    var wanted = filter.value.trim(), chosen = wanted && xpurun.parseFilter(wanted), kept = 0, rows = ranks.tBodies[0].rows;
    Array.prototype.forEach.call(rows, function (row) {
      var text = row.textContent.toLowerCase(), rank = parseInt(row.cells[0].textContent, 10);
      row.hidden = !!wanted && (chosen ? !xpurun.passes(chosen, rank) : text.indexOf(wanted.toLowerCase()) < 0);
      kept += row.hidden ? 0 : 1;
    });
    byId("rank-count").textContent = xpurun.t("{0} of {1} ranks", kept, rows.length);
  }
  if (filter && !ranks.dataset.rows && ranks.tBodies[0].rows.length > 1) {
    filter.closest("p").hidden = false;
    filter.addEventListener("input", keepRows);
  }
  xpurun.showRanks = function (text) {
    filter.value = text;
    filter.dispatchEvent(new Event("input"));
    byId("ranks").scrollIntoView();
    filter.focus({ preventScroll: true });
  };
  if (filter) document.querySelectorAll("#times tbody th, #waiting tbody th, #calls tbody th, #groups .card h3, #speed .by-rank tbody th").forEach(function (th) {
    var holder = Array.prototype.find.call(th.childNodes, function (n) { return n.nodeType === 3 && /\d/.test(n.data); });
    var found = holder && /^(?:ranks?\s*)?(\d+(?:-\d+)?(?:, ?\d+(?:-\d+)?)*)$/i.exec(holder.data.trim());
    if (!found) return;
    var link = document.createElement("button"), text = found[1].replace(/ /g, "");
    link.type = "button";
    link.className = "rank-link";
    link.textContent = holder.data.trim();
    link.title = xpurun.t("Rows of these ranks");
    link.addEventListener("click", function () { xpurun.showRanks(text); });
    holder.replaceWith(link, " ");
  });
  document.querySelectorAll(".strip i").forEach(function (piece) {
    var found = /[\d,-]+/.exec(piece.title);
    if (found) piece.addEventListener("click", function () { xpurun.showRanks(found[0]); });
  });

  // --- the section in sight is marked in the navigation
  var links = Array.prototype.slice.call(document.querySelectorAll("nav a"));
  function mark() {
    var current = null;
    links.forEach(function (link) {
      var section = byId(link.hash.slice(1));
      if (section && section.getBoundingClientRect().top < innerHeight / 3) current = link;
      link.removeAttribute("aria-current");
    });
    if (current) current.setAttribute("aria-current", "true");
  }
  if (links.length) window.addEventListener("scroll", mark, { passive: true });

  // --- the time line under the pointer, and by the arrow keys: time, step, and how much of a step a rank worked itself
  var times = byId("times"), told = byId("times-info");
  function pad(n, digits) { return String(n).padStart(digits, "0"); }
  function clock(ms) {
    var at = new Date(ms);
    return pad(at.getUTCHours(), 2) + ":" + pad(at.getUTCMinutes(), 2) + ":" + pad(at.getUTCSeconds(), 2);
  }
  function between(known, value, from, to) {
    for (var i = 1; i < known.length; i++)
      if (known[i - 1][from] <= value && value <= known[i][from])
        return known[i - 1][to] + (value - known[i - 1][from]) / (known[i][from] - known[i - 1][from] || 1) * (known[i][to] - known[i - 1][to]);
    return -1;
  }
  function ownAt(svg, share) {
    var parts = (svg ? svg.firstElementChild.getAttribute("d") : "").matchAll(/M([\d.]+) 100V(\d+)H([\d.]+)V100z/g);
    for (var p of parts) if (+p[1] <= share * 1000 && share * 1000 <= +p[3]) return 100 - p[2];
    return -1;
  }
  if (times && told) {
    var started = +times.dataset.started, length = +times.dataset.seconds, known = JSON.parse(times.dataset.steps || "[]"), share = 0.5;
    function tellTime(track, at) {
      share = Math.min(1, Math.max(0, at));
      var s = share * length, step = between(known, s, 0, 1), own = ownAt(track.querySelector("svg"), share);
      document.querySelectorAll("#times .cursor").forEach(function (c) { c.remove(); });
      document.querySelectorAll("#times .track > div").forEach(function (div) {
        var cursor = document.createElement("i");
        cursor.className = "cursor";
        cursor.style.left = 100 * share + "%";
        div.append(cursor);
      });
      told.textContent = [started > 0 ? clock(started + s * 1000) : "", xpurun.t("{0} s in", +s.toFixed(length < 10 ? 2 : 0)),
        step >= 0 ? xpurun.t("step {0}", Math.floor(step).toLocaleString("en")) : "",
        own >= 0 ? xpurun.t("ranks {0}: {1} % of a step their own, {2} % waiting", track.closest("tr").cells[0].textContent.replace("▶", "").trim(), own, 100 - own) : ""]
        .filter(Boolean).join(" · ");
    }
    document.querySelectorAll("#times td.track").forEach(function (track, i, all) {
      track.tabIndex = i ? -1 : 0;
      track.setAttribute("role", "group");
      track.setAttribute("aria-label", xpurun.t("Time line of ranks {0}: arrow keys move", track.closest("tr").cells[0].textContent.trim()));
      track.addEventListener("pointermove", function (event) {
        var box = track.firstElementChild.getBoundingClientRect();
        tellTime(track, (event.clientX - box.left) / box.width);
      });
      track.addEventListener("keydown", function (event) {
        var by = { ArrowLeft: -0.01, ArrowRight: 0.01 }[event.key], to = { ArrowUp: all[i - 1], ArrowDown: all[i + 1] }[event.key];
        if (!by && !to) return;
        event.preventDefault();
        if (to) to.focus();
        tellTime(to || track, share + (by || 0));
      });
    });
  }

  // --- the plot of steps likewise
  document.querySelectorAll("svg.steps").forEach(function (svg) {
    var d = svg.dataset, line = svg.querySelector(".usual"), said = document.createElement("p"), cursor = document.createElementNS(svg.namespaceURI, "path"), at = 0;
    if (!line || !d.steps) return;
    var points = line.getAttribute("points").trim().split(/\s+/).map(function (p) { return p.split(",").map(Number); });
    said.className = "said";
    said.setAttribute("role", "status");
    svg.closest(".scroll").after(said);
    cursor.setAttribute("class", "cursor");
    svg.append(cursor);
    svg.setAttribute("tabindex", "0");
    function tell(index) {
      at = Math.min(points.length - 1, Math.max(0, index));
      var x = points[at][0], step = (x - d.left) / (d.right - d.left) * d.steps, s = (1 - (points[at][1] - d.top) / (d.bottom - d.top)) * d.most;
      cursor.setAttribute("d", "M" + x + " " + d.top + "V" + d.bottom);
      said.textContent = xpurun.t("step {0}: {1} ms", Math.floor(step).toLocaleString("en"), +(s * 1000).toPrecision(3));
    }
    svg.addEventListener("pointermove", function (event) {
      var box = svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width, best = 0;
      points.forEach(function (p, i) { if (Math.abs(p[0] - x) < Math.abs(points[best][0] - x)) best = i; });
      tell(best);
    });
    svg.addEventListener("keydown", function (event) {
      var by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      tell(at + by);
    });
  });
})();
