// The table of very many ranks: the page holds the first rows; the others come from the report's data, and only those
// that are in sight are made.
(function () {
  "use strict";
  var xpurun = window.xpurun, ROW = 30, MARGIN = 10, WHERE = 2;
  var table = document.querySelector("#ranks table[data-rows]");
  if (!table) return;
  var body = table.tBodies[0], heads = table.tHead.rows[0].cells, scroll = table.closest(".scroll"), field = document.getElementById("rank-filter");
  var all = [], shown = [], order = null;
  var TEXT = [function (r) { return r.rank; }, function (r) { return r.state; }, function (r) { return (r.function + " " + r.place).trim(); },
    function (r) { return r.progress; }, function (r) { return r.ending; }, function (r) { return r.host; }, function (r) { return r.pid || ""; }];

  // As in the rows that the page holds.
  function place(el, rank) {
    var code = document.createElement("code"), where = document.createElement("span");
    code.textContent = rank.function;
    where.className = "dim";
    where.textContent = rank.place;
    el.append(code, " ", where);
  }
  function line(rank) {
    var tr = document.createElement("tr");
    tr.className = rank.culprit ? "culprit" : "";
    TEXT.forEach(function (text, i) {
      var el = document.createElement(i ? "td" : "th");
      if (!i) el.scope = "row";
      if (!i && document.getElementById("stacks")) {
        var link = document.createElement("a");
        link.href = "#stacks?ranks=" + rank.rank;
        link.textContent = rank.rank;
        link.tabIndex = -1; // thousands of links: by keyboard, the filter finds a rank
        el.append(link);
      } else if (i === WHERE && rank.function) place(el, rank); else el.textContent = (i === 1 && rank.culprit ? "▶ " : "") + text(rank);
      tr.append(el);
    });
    return tr;
  }
  function gap(rows) {
    var tr = document.createElement("tr"), td = document.createElement("td");
    tr.setAttribute("aria-hidden", "true");
    td.colSpan = TEXT.length;
    td.className = "gap";
    td.style.height = rows * ROW + "px";
    tr.append(td);
    return tr;
  }
  function draw() {
    var first = Math.max(0, Math.floor(scroll.scrollTop / ROW) - MARGIN);
    var last = Math.min(shown.length, first + Math.ceil(scroll.clientHeight / ROW) + 2 * MARGIN), rows = shown.slice(first, last).map(line);
    if (first) rows.unshift(gap(first));
    if (last < shown.length) rows.push(gap(shown.length - last));
    body.replaceChildren.apply(body, rows);
    table.setAttribute("aria-rowcount", shown.length + 1);
  }
  function select() {
    var wanted = field.value.trim(), ranks = wanted ? xpurun.parseFilter(wanted) : null, words = wanted.toLowerCase();
    shown = all.filter(function (r) {
      if (!wanted) return true;
      if (ranks) return xpurun.passes(ranks, r.rank);
      return TEXT.some(function (text) { return String(text(r)).toLowerCase().indexOf(words) >= 0; });
    });
    if (order) shown.sort(function (a, b) {
      var x = TEXT[order.column](a), y = TEXT[order.column](b);
      var by = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return (order.down ? -by : by) || a.rank - b.rank;
    });
    document.getElementById("rank-count").textContent = xpurun.t("{0} of {1} ranks", shown.length, all.length);
    scroll.scrollTop = 0;
    draw();
  }
  xpurun.ranksReady = xpurun.unpack("report-data").then(function (text) {
    all = JSON.parse(text).ranks || [];
    Array.prototype.forEach.call(heads, function (th, column) {
      var button = document.createElement("button");
      button.textContent = th.textContent;
      th.replaceChildren(button);
      button.addEventListener("click", function () {
        order = { column: column, down: order && order.column === column ? !order.down : false };
        Array.prototype.forEach.call(heads, function (other) { other.removeAttribute("aria-sort"); });
        th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
        select();
      });
    });
    table.classList.add("virtual");
    field.closest("p").hidden = false;
    if (document.getElementById("ranks-cut")) document.getElementById("ranks-cut").hidden = true;
    field.addEventListener("input", select);
    scroll.addEventListener("scroll", draw);
    select();
  }, function () { /* the first rows stay */ });
})();
