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
})();
