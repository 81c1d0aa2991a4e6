// What the page gains from scripts beside the stacks: sortable tables, open details on paper, a download of the data.
(function () {
  "use strict";
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
  if (byId("download")) byId("download").addEventListener("click", function (event) {
    event.preventDefault();
    window.xpurun.unpack("report-data").then(function (text) {
      var link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = "report.json";
      link.click();
    });
  });
})();
