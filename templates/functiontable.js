// The table of functions below the picture: self and total by ranks and threads, sortable; a function's button shows its
// callers and callees in the picture.
(function () {
  "use strict";
  var xpurun = window.xpurun, MOST = 200;
  var byId = function (id) { return document.getElementById(id); };
  var COLUMNS = [["label", xpurun.t("Function")], ["selfRanks", xpurun.t("Self, ranks")], ["selfThreads", xpurun.t("Self, threads")],
    ["totalRanks", xpurun.t("Total, ranks")], ["totalThreads", xpurun.t("Total, threads")], ["ranks", xpurun.t("Which ranks")]];
  var order = { key: "selfRanks", down: true }, rows = [], holder = byId("functions");
  if (!holder) return;

  function cell(name, text) {
    var el = document.createElement(name);
    el.textContent = text;
    return el;
  }
  function line(row) {
    var tr = document.createElement("tr"), th = document.createElement("th"), button = cell("button", row.label);
    button.type = "button";
    button.className = "link";
    button.addEventListener("click", function () { xpurun.showFunction(row.label); });
    th.scope = "row";
    th.append(button);
    tr.append(th);
    COLUMNS.slice(1).forEach(function (column) {
      var td = cell("td", column[0] === "ranks" ? xpurun.ranksText(row.ranks) : row[column[0]]);
      if (column[0] !== "ranks") td.className = "num";
      tr.append(td);
    });
    return tr;
  }
  function show() {
    var key = order.key;
    rows.sort(function (a, b) {
      var x = a[key], y = b[key], by = typeof x === "number" ? x - y : x < y ? -1 : x > y ? 1 : 0;
      return (order.down ? -by : by) || b.totalRanks - a.totalRanks || (a.label < b.label ? -1 : 1);
    });
    byId("functions-body").replaceChildren.apply(byId("functions-body"), rows.slice(0, MOST).map(line));
    byId("functions-cut").textContent = rows.length > MOST ? xpurun.t("{0} more; the search above narrows the table.", rows.length - MOST) : "";
    Array.prototype.forEach.call(byId("functions-head").cells, function (th, i) {
      if (COLUMNS[i][0] === key) th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
  }
  COLUMNS.forEach(function (column) {
    var th = document.createElement("th"), button = cell("button", column[1]);
    th.scope = "col";
    button.type = "button";
    button.addEventListener("click", function () {
      order = { key: column[0], down: order.key === column[0] ? !order.down : column[0] !== "label" && column[0] !== "ranks" };
      show();
    });
    th.append(button);
    byId("functions-head").append(th);
  });

  // Called for every new view; the rows are only made while they are seen.
  var latest = null;
  function update() {
    if (!latest || !holder.open) return;
    rows = latest.model.functions(latest.view).filter(function (row) { return !latest.pattern || latest.pattern.test(row.label); });
    latest = null;
    show();
  }
  holder.addEventListener("toggle", update);
  xpurun.showFunctions = function (model, view, pattern) {
    latest = { model: model, view: Object.assign({}, view), pattern: pattern };
    holder.hidden = false;
    update();
  };
})();
