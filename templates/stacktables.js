// What the stacks of a view say beside the picture: the table of functions, and a comparison in words. No drawing.
(function () {
  "use strict";
  var xpurun = window.xpurun, Model = xpurun.Model, count = xpurun.count, merge = xpurun.merge, passesView = xpurun.passesView;

  // Every function of a view: on how many ranks and threads it is (total), and where stacks end in it (self).
  Model.prototype.functions = function (view) {
    var data = this.data, s = data.stacks, self = this, words = this.universe.words, out = new Map();
    var filter = view.ranks ? xpurun.parseFilter(view.ranks) : null, whole = Object.assign({}, view, { compare: "", fn: "" });
    s.path.forEach(function (id, i) {
      var role = data.roles[s.role[i]];
      if (!passesView(view, role, s.state[i]) || !s.threads[i]) return;
      if (self.universe.ranks.length && role[0] !== "rank" && role[0] !== "worker") return;
      var sides = self.sides(i, whole, filter, null).filter(function (side) { return count(side[1]) > 0; });
      if (!sides.length) return;
      var path = self.shown(id, whole, role[1] === "main", false) || [], seen = new Set();
      path.forEach(function (f, k) {
        var row = out.get(f);
        if (!row) out.set(f, row = { frame: f, label: data.labels[f], self: new Uint32Array(words), total: new Uint32Array(words), selfThreads: 0, totalThreads: 0 });
        sides.forEach(function (side) {
          var n = s.threads[i] * count(side[1]);
          if (k === path.length - 1) { merge(row.self, side[1]); row.selfThreads += n; }
          if (!seen.has(f)) { merge(row.total, side[1]); row.totalThreads += n; }
        });
        seen.add(f);
      });
    });
    return Array.from(out.values()).map(function (row) {
      // In a picture without ranks, processes.
      row.selfRanks = count(row.self);
      row.totalRanks = count(row.total);
      row.ranks = self.universe.text(row.total);
      return row;
    });
  };

  // In words, what a comparison shows of the main threads: how far both sides are alike, and where each goes then.
  Model.prototype.difference = function (built, names) {
    var panel = built.panels[0];
    if (!built.compared || !panel) return "";
    function way(side) {
      var out = [], node = panel.root;
      for (;;) {
        var next = node.kids.reduce(function (best, kid) { return kid.n[side] > (best ? best.n[side] : 0) ? kid : best; }, null);
        if (!next) return out;
        out.push(node = next);
      }
    }
    var a = way(0), b = way(1), alike = 0;
    if (!a.length || !b.length) return xpurun.t("{0}: no stacks in this view.", names[a.length ? 1 : 0]);
    while (alike < a.length && alike < b.length && a[alike] === b[alike]) alike++;
    var start = alike ? xpurun.t("Equal up to {0}. ", a[alike - 1].label) : "";
    if (alike === a.length && alike === b.length) return xpurun.t("No difference: both are in {0}.", a[alike - 1].label);
    var then = function (list, side) {
      var rest = list.slice(alike), kinds = this.data.kinds;
      // The innermost Python frame says more than the C function below it.
      var python = rest.filter(function (node) { return kinds[node.frame] === "p"; }), last = (python.length ? python : rest).slice(-1)[0];
      if (!rest.length) return xpurun.t("{0} stays there", names[side]);
      var most = rest[0].n[side] < panel.totals[side] ? " (" + xpurun.t("{0} of {1}", rest[0].n[side], panel.totals[side]) + ")" : "";
      return names[side] + most + ": " + rest[0].label + (last !== rest[0] ? " … " + last.label : "");
    }.bind(this);
    return start + (alike ? xpurun.t("From there, ") : "") + then(a, 0) + "; " + then(b, 1) + ".";
  };
})();
