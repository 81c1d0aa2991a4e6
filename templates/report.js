// What the page gains from scripts: sortable tables, the flame graphs' tools, a download of the data.
(function () {
  "use strict";
  var graphs = window.xpurunGraphs || {};
  var byId = function (id) { return document.getElementById(id); };

  // --- tables
  function value(row, column) {
    var text = row.cells[column].textContent.trim(), number = parseFloat(text);
    return { text: text, number: isNaN(number) ? Infinity : number };
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
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

  // --- flame graphs
  var tools = byId("tools"), query = byId("query"), colors = byId("colors");
  function current() {
    var tab = document.querySelector('input[name="layer"]:checked');
    return tab && graphs[tab.id.slice(4)];
  }
  function fitWidth() {
    var graph = current(), box = graph && graph.svg.parentElement;
    if (box && box.clientWidth) graph.resize(Math.max(box.clientWidth, 300));
  }
  function showState() {
    var graph = current();
    if (!graph) return;
    if (document.activeElement !== query) query.value = graph.query;
    colors.setAttribute("aria-pressed", String(graph.svg.getAttribute("data-colors") === "layers"));
  }
  if (tools && current()) {
    tools.hidden = false;
    Object.keys(graphs).forEach(function (layer) {
      graphs[layer].found = byId("found");
      graphs[layer].onstate = showState;
    });
    document.querySelectorAll('input[name="layer"]').forEach(function (tab) {
      tab.addEventListener("change", function () {
        fitWidth();
        current().search(query.value);
        showState();
      });
    });
    query.addEventListener("input", function () { current().search(query.value); });
    colors.addEventListener("click", function () { current().toggleColors(); });
    byId("reset").addEventListener("click", function () { query.value = ""; current().reset(); });
    document.addEventListener("keydown", function (event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      var typing = /^(input|textarea|select)$/i.test(event.target.localName) && event.target.type !== "radio";
      if (event.key === "/" && !typing) { event.preventDefault(); query.focus(); }
      else if (event.key === "c" && !typing) current().toggleColors();
      else if (event.key === "Escape") { query.value = ""; current().reset(); }
    });
    var wanted = /(?:^#|&)fg=(\w+)/.exec(location.hash), tab = wanted && byId("tab-" + wanted[1]);
    if (tab) { tab.checked = true; byId("stacks").scrollIntoView(); }
    fitWidth();
    showState();
    window.addEventListener("resize", fitWidth);
  }

  // --- paper: everything open; closed again afterwards
  var opened = [];
  window.addEventListener("beforeprint", function () {
    opened = Array.prototype.filter.call(document.querySelectorAll("details"), function (d) { return !d.open; });
    opened.forEach(function (d) { d.open = true; });
  });
  window.addEventListener("afterprint", function () {
    opened.forEach(function (d) { d.open = false; });
  });

  // --- a mailed page still gives its data
  var link = byId("download");
  link.addEventListener("click", function () {
    var blob = new Blob([byId("report-data").textContent], { type: "application/json" });
    link.href = URL.createObjectURL(blob);
  });
})();
