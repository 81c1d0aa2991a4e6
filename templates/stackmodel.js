// The distinct stacks of the page as a tree for one view of them: layer, filters, order, comparison. No drawing.
// Columns of the data are described in docs/report.md.
(function () {
  "use strict";
  var xpurun = window.xpurun = window.xpurun || {};

  // Text of a data block: plain, or gzip in base64.
  xpurun.unpack = function (id) {
    var at = document.getElementById(id);
    if (!at) return Promise.reject(new Error(xpurun.t("no data")));
    if (!at.hasAttribute("data-encoding")) return Promise.resolve(at.textContent);
    if (!window.DecompressionStream) return Promise.reject(new Error(xpurun.t("this browser cannot unpack the page's data")));
    var bytes = Uint8Array.from(atob(at.textContent), function (c) { return c.charCodeAt(0); });
    var stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  // --- sets of ranks
  // "0-3,7" -> [[0,3],[7,7]]; null on anything else.
  function parseSet(text) {
    var out = [];
    if (text.trim() === "") return out;
    var parts = text.split(",");
    for (var i = 0; i < parts.length; i++) {
      var m = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(parts[i]);
      if (!m) return null;
      out.push([+m[1], m[2] === undefined ? +m[1] : +m[2]]);
    }
    return out;
  }
  // "0-7,!3": the wanted and the unwanted parts. {yes, no} or null.
  xpurun.parseFilter = function (text) {
    var yes = [], no = [];
    text.split(",").forEach(function (part) {
      part = part.trim();
      if (part[0] === "!") no.push(part.slice(1)); else if (part) yes.push(part);
    });
    yes = parseSet(yes.join(","));
    no = no.some(function (part) { return !part.trim(); }) ? null : parseSet(no.join(","));
    return yes && no ? { yes: yes, no: no } : null;
  };
  function within(intervals, n) {
    return intervals.some(function (i) { return n >= i[0] && n <= i[1]; });
  }
  xpurun.passes = function (filter, rank) {
    return (!filter.yes.length || within(filter.yes, rank)) && !within(filter.no, rank);
  };
  function pop(v) {
    v -= (v >>> 1) & 0x55555555;
    v = (v & 0x33333333) + ((v >>> 2) & 0x33333333);
    return Math.imul((v + (v >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
  }
  function count(bits) {
    var n = 0;
    for (var i = 0; i < bits.length; i++) n += pop(bits[i]);
    return n;
  }
  xpurun.count = count;
  function same(a, b) {
    for (var i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
    return true;
  }
  function meet(a, b) {
    for (var i = 0; i < a.length; i++) if (a[i] & b[i]) return true;
    return false;
  }
  // How many are in both.
  function common(a, b) {
    return count(a.map(function (word, i) { return word & b[i]; }));
  }
  function merge(into, from) {
    for (var i = 0; i < into.length; i++) into[i] |= from[i];
  }
  xpurun.merge = merge;

  // Numbers of the universe: all ranks in order, then processes that have none.
  function Universe(data) {
    var seen = new Set(), processes = 0;
    this.sets = data.sets.map(function (text) { return parseSet(text) || []; });
    var used = new Set(data.stacks.ranks || []), self = this;
    used.forEach(function (s) {
      self.sets[s].forEach(function (i) { for (var r = i[0]; r <= i[1]; r++) seen.add(r); });
    });
    (data.stacks.processes || []).forEach(function (s) {
      self.sets[s].forEach(function (i) { processes = Math.max(processes, i[1] + 1); });
    });
    this.ranks = Array.from(seen).sort(function (a, b) { return a - b; });
    this.at = new Map(this.ranks.map(function (r, i) { return [r, i]; }));
    this.size = this.ranks.length + processes;
    this.words = Math.max(1, Math.ceil(this.size / 32));
  }
  Universe.prototype.bits = function (rankSet, processSet, filter) {
    var bits = new Uint32Array(this.words), self = this;
    this.sets[rankSet].forEach(function (i) {
      for (var r = i[0]; r <= i[1]; r++) {
        if (filter && !xpurun.passes(filter, r)) continue;
        var n = self.at.get(r);
        bits[n >>> 5] |= 1 << (n & 31);
      }
    });
    if (filter && filter.yes.length) return bits;
    this.sets[processSet].forEach(function (i) {
      for (var p = i[0]; p <= i[1]; p++) {
        var n = self.ranks.length + p;
        bits[n >>> 5] |= 1 << (n & 31);
      }
    });
    return bits;
  };
  Universe.prototype.of = function (intervals) {
    var bits = new Uint32Array(this.words), self = this;
    this.ranks.forEach(function (r, n) { if (within(intervals, r)) bits[n >>> 5] |= 1 << (n & 31); });
    return bits;
  };
  // "0-1,3"; processes without rank are not in it.
  Universe.prototype.text = function (bits) {
    var out = [], first = null, last = null;
    function close() { if (first !== null) out.push(first === last ? "" + first : first + "-" + last); }
    for (var n = 0; n < this.ranks.length; n++) {
      if (!(bits[n >>> 5] >>> (n & 31) & 1)) continue;
      var r = this.ranks[n];
      if (last !== null && r === last + 1) { last = r; continue; }
      close();
      first = last = r;
    }
    close();
    return out.join(",");
  };
  xpurun.ranksText = function (text) {
    if (!text) return "";
    var one = /^\d+$/.test(text);
    if (text.length > 40) text = text.slice(0, text.lastIndexOf(",", 40)) + ",…";
    return one ? xpurun.t("rank {0}", text) : xpurun.t("ranks {0}", text);
  };

  // --- trees
  function Node(parent, frame, label, words, sides) {
    this.parent = parent;
    this.frame = frame;  // -1: stands for a thread role or for the panel
    this.label = label;
    this.kids = [];
    this.byFrame = new Map();
    this.bits = [];
    this.threads = [];
    for (var i = 0; i < sides; i++) { this.bits.push(new Uint32Array(words)); this.threads.push(0); }
    this.states = {};
    this.depth = parent ? parent.depth + 1 : -1;
  }
  Node.prototype.child = function (frame, label) {
    var key = frame < 0 ? label : frame, kid = this.byFrame.get(key);
    if (!kid) {
      kid = new Node(this, frame, label, this.bits[0].length, this.bits.length);
      this.byFrame.set(key, kid);
      this.kids.push(kid);
    }
    return kid;
  };
  Node.prototype.add = function (side, bits, threads, state) {
    merge(this.bits[side], bits);
    this.threads[side] += threads;
    this.states[state] = (this.states[state] || 0) + threads;
  };

  function Model(data) {
    this.data = data;
    this.universe = new Universe(data);
    // Processes that belong to no job.
    this.alone = data.roles.length > 0 && data.roles.every(function (role) { return role[0] === "other"; });
    this.paths = new Map();
    this.culprits = this.universe.of(parseSet(data.culprits) || []);
  }
  xpurun.Model = Model;

  // Frames of a path, outermost first.
  Model.prototype.path = function (id) {
    var out = [];
    for (var at = id; at > 0; at = this.data.parents[at - 1]) out.push(this.data.frames[at - 1]);
    return out.reverse();
  };

  function keeps(kind, layer) {
    if (layer === "python") return kind === "p";
    if (layer === "native") return kind !== "p";
    return kind !== "e";
  }

  // Own code, the Python call that it waits in, and where the stack ends. A thread without own code: where it began.
  Model.prototype.own = function (path) {
    var data = this.data, user = false, python = -1, library = -1, end = path.length - 1;
    path.forEach(function (f, i) {
      if (data.groups[f] === "u") user = true;
      if (data.kinds[f] === "p") python = i;
      if (library < 0 && data.groups[f] === "l") library = i;
    });
    return function (f, i) {
      return data.groups[f] === "u" || i === end || i === python || !user && i === library;
    };
  };

  // What of a path is shown in a view.
  Model.prototype.shown = function (id, view, main, empty) {
    var data = this.data, whole = this.path(id);
    if (empty) return whole;
    var out = whole.filter(function (f) { return keeps(data.kinds[f], view.layer); });
    var own = view.code === "own" ? this.own(out) : null;
    out = out.filter(function (f, i) {
      if (view.fn && data.labels[f] === view.fn || i === out.length - 1) return true;
      return own ? own(f, i) : view.code !== "calls" || data.groups[f] !== "i";
    });
    return out.length || !(main || view.layer === "merged") ? out : null;
  };

  function panelOf(role) {
    if (role[0] === "rank") return role[1] === "main" ? 0 : 1;
    return role[0] === "worker" ? 2 : 3;
  }
  function passesView(view, role, state) {
    if (view.thread && role[1] !== view.thread || view.process && role[0] !== view.process) return false;
    return !view.state || (view.state.length > 1 ? state.slice(1) === view.state.slice(1) : state[0] === view.state);
  }
  xpurun.passesView = passesView;
  var TITLES = [xpurun.t("Main threads of the ranks"), xpurun.t("Other threads of the ranks"), xpurun.t("Dataloader workers"),
    xpurun.t("Launcher and other processes")];
  var NOTHING = { python: xpurun.t("[no Python frames]"), native: xpurun.t("[no native frames]"), merged: xpurun.t("[no frames]") };

  function hash(seed, text) {
    var h = seed ^ 0x811c9dc5;
    for (var i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
    return h >>> 0;
  }

  // The sides on which stack `i` counts: [[side, bits]...]. Without a comparison there is one side; with one, side 0 is
  // the compared part, and side 1 the part to compare with.
  Model.prototype.sides = function (i, view, filter, group) {
    var s = this.data.stacks, bits = this.universe.bits(s.ranks[i], s.processes[i], filter);
    if (view.compare === "ranks") {
      if (s.moment[i] !== view.moment) return [];
      var a = bits.slice(), b = bits.slice();
      for (var w = 0; w < bits.length; w++) { a[w] &= group.subject[w]; b[w] &= group.reference[w]; }
      return [[0, a], [1, b]];
    }
    if (view.compare !== "") {
      return s.moment[i] === view.moment ? [[0, bits]] : s.moment[i] === +view.compare ? [[1, bits]] : [];
    }
    return s.moment[i] === view.moment ? [[0, bits]] : [];
  };

  // Panels with their trees for a view; `error` says which part of it cannot be understood.
  Model.prototype.build = function (view) {
    var data = this.data, s = data.stacks, self = this, words = this.universe.words;
    var filter = view.ranks ? xpurun.parseFilter(view.ranks) : null;
    var error = view.ranks && !filter ? xpurun.t("{0}: write 0-7,!3", "ranks") : "", group = {};
    ["group", "against"].forEach(function (key) {
      var wanted = view[key] ? xpurun.parseFilter(view[key]) : null, bits = new Uint32Array(words);
      if (view[key] && !wanted && view.compare === "ranks") error = xpurun.t("{0}: write 0-7,!3", key);
      self.universe.ranks.forEach(function (r, n) {
        var other = !view.against && !(group.subject && group.subject[n >>> 5] >>> (n & 31) & 1);
        if (wanted ? xpurun.passes(wanted, r) : key === "against" && other) bits[n >>> 5] |= 1 << (n & 31);
      });
      group[key === "group" ? "subject" : "reference"] = bits;
    });
    var compared = view.compare !== "";
    var titles = view.fn ? [xpurun.t("What {0} calls", view.fn), xpurun.t("Callers of {0}, nearest first", view.fn)] : TITLES;
    if (this.alone && !view.fn) titles = titles.slice(0, 3).concat(this.universe.size === 1 ? xpurun.t("Threads of the process") : xpurun.t("Threads of {0} processes", this.universe.size));
    var panels = titles.map(function (title, at) {
      return { title: title, main: at === 0 && !view.fn, roles: at !== 0 && !view.fn, others: at === 3 && !self.alone, root: new Node(null, -1, title, words, compared ? 2 : 1), depth: 0 };
    });
    var paths = new Map();
    for (var i = 0; i < s.path.length; i++) {
      var role = data.roles[s.role[i]], state = s.state[i];
      if (!passesView(view, role, state)) continue;
      var sides = this.sides(i, view, filter, group).filter(function (side) { return count(side[1]) > 0; });
      if (!sides.length) continue;
      var key = s.path[i] + (role[1] === "main" ? "m" : "");
      if (!paths.has(key)) paths.set(key, this.shown(s.path[i], view, role[1] === "main", !s.threads[i]));
      var path = paths.get(key), at = panelOf(role);
      if (path && !path.length) continue;
      // Processes without a rank belong to no group of ranks.
      if (view.compare === "ranks" && at === 3) continue;
      if (view.fn) {
        this.sandwich(panels, path || [], sides, s.threads[i], state, view.fn);
        continue;
      }
      sides.forEach(function (side) {
        var node = panels[at].root, n = s.threads[i] * count(side[1]);
        node.add(side[0], side[1], n, state);
        if (at !== 0) {
          node = node.child(-1, at === 3 && !self.alone ? role[0] + ": " + role[1] : role[1]);
          node.add(side[0], side[1], n, state);
        }
        if (path === null) {
          node.child(-1, NOTHING[view.layer]).add(side[0], side[1], n, state);
          return;
        }
        for (var k = 0; k < path.length; k++) {
          var f = path[view.reverse ? path.length - 1 - k : k];
          node = node.child(f, data.labels[f]);
          node.add(side[0], side[1], n, state);
        }
      });
    }
    panels = panels.filter(function (panel) { return panel.root.kids.length; });
    panels.forEach(function (panel, index) {
      panel.index = index;
      self.finish(panel, view);
    });
    // The culprits' colour stays theirs, on whichever side they are.
    var culpritsAreReference = view.compare === "ranks" && meet(group.reference, this.culprits) && !meet(group.subject, this.culprits);
    return { panels: panels, error: error, compared: compared, inverted: culpritsAreReference, whole: !!view.fn };
  };

  // One stack in the trees below and above a function.
  Model.prototype.sandwich = function (panels, path, sides, threads, state, label) {
    var data = this.data, at = path.findIndex(function (f) { return data.labels[f] === label; });
    if (at < 0) return;
    [path.slice(at), path.slice(0, at + 1).reverse()].forEach(function (part, p) {
      sides.forEach(function (side) {
        var node = panels[p].root, n = threads * count(side[1]);
        node.add(side[0], side[1], n, state);
        part.forEach(function (f) {
          node = node.child(f, data.labels[f]);
          node.add(side[0], side[1], n, state);
        });
      });
    });
  };

  // Weights, ids and order of the children; prunes what does not differ if that is wanted.
  Model.prototype.finish = function (panel, view) {
    var self = this, compared = panel.root.bits.length > 1;
    panel.nodes = new Map();
    panel.totals = panel.root.bits.map(function (bits, i) { return view.width === "threads" ? panel.root.threads[i] : count(bits); });
    function weigh(node, seed, all) {
      node.n = node.bits.map(count);
      node.weight = view.width === "threads" ? node.threads.reduce(add, 0) : node.n.reduce(add, 0);
      node.id = hash(seed, node.label + (node.frame < 0 ? "" : self.data.kinds[node.frame]));
      node.ranks = self.universe.text(node.bits.length > 1 ? union(node.bits) : node.bits[0]);
      node.lowest = parseInt(node.ranks, 10) || 0;
      if (compared) {
        var share = node.n.map(function (n, i) {
          return (view.width === "threads" ? node.threads[i] : n) / (panel.totals[i] || 1);
        });
        node.delta = share[0] - share[1];
      }
      // A thread role's own ranks are "all" for the frames below it.
      var own = panel.roles && node.parent === panel.root ? node : all;
      node.kids.forEach(function (kid) { weigh(kid, node.id, own); });
      if (view.diff) {
        node.kids = node.kids.filter(function (kid) {
          return kid.kids.length || (compared ? Math.abs(kid.delta) > 1e-9 : !same(kid.bits[0], own.bits[0]));
        });
      }
      // Thread roles stay in the order of the data.
      if (self.alone && !node.parent) node.kids.sort(function (a, b) { return (b.label === "main") - (a.label === "main"); });
      if (node.parent || !panel.roles) node.kids.sort(function (a, b) {
        return a.weight - b.weight || a.lowest - b.lowest || (a.label < b.label ? -1 : a.label > b.label ? 1 : 0);
      });
      if (node.parent) {
        panel.nodes.set(node.id, node);
        node.diverges = !(panel.roles && node.parent === panel.root) && node.ranks !== "" && node.n.reduce(add, 0) < node.parent.n.reduce(add, 0);
      }
    }
    weigh(panel.root, panel.title.length, panel.root);
    panel.depth = 0;
    (function deepest(node) {
      panel.depth = Math.max(panel.depth, node.depth + 1);
      node.kids.forEach(deepest);
    })(panel.root);
    panel.total = panel.root.weight;
  };
  function add(a, b) { return a + b; }
  function union(list) {
    var out = list[0].slice();
    list.slice(1).forEach(function (bits) { merge(out, bits); });
    return out;
  }

  // Fractions of a panel's width for the children of `node`, which is `width` wide. A few lone ones among very many get
  // a least width, as in the static picture.
  var LEAST = 0.02;
  xpurun.childWidths = function (node, width) {
    var sum = node.kids.reduce(function (n, kid) { return n + kid.weight; }, 0);
    var unit = width / Math.max(sum, node.weight, 1), raised = 0, wide = 0;
    var widths = node.kids.map(function (kid) {
      var w = kid.weight * unit;
      if (w < LEAST) raised += LEAST; else wide += w;
      return w;
    });
    if (!raised || raised > width / 3 || wide < width / 2) return widths;
    return widths.map(function (w) { return w < LEAST ? LEAST : w * (width - raised) / width; });
  };

  // Which look a set of ranks has: neutral for all, a quiet tint for most, hatched colours for small sets.
  var COLORS = 7;
  xpurun.Palette = function (built, model) {
    var css = new Map(), legend = [], all = "", small = [], large = [], allSeen = false, total = 0;
    if (built.panels.length) {
      var everyone = built.panels.map(function (p) { return p.root.bits[0]; }).reduce(function (a, b) { return union([a, b]); });
      // Of a function alone, only some ranks may be there.
      all = built.whole ? model.universe.text(model.universe.of([[0, Infinity]])) : model.universe.text(everyone);
      total = all ? count(model.universe.of(parseSet(all))) : 0;
    }
    var culprits = model.universe.text(model.culprits);
    built.panels.forEach(function (panel) {
      var here = new Map();
      panel.nodes.forEach(function (node) {
        var n = node.n[0];
        if (node.ranks === all) allSeen = true;
        else if (node.ranks && n * 2 > total && large.indexOf(node.ranks) < 0) large.push(node.ranks);
        else if (node.ranks && n * 2 <= total) here.set(node.ranks, node);
      });
      Array.from(here.values()).sort(function (a, b) {
        var x = a.ranks === culprits ? 0 : 1, y = b.ranks === culprits ? 0 : 1;
        return x - y || a.n[0] - b.n[0] || a.lowest - b.lowest;
      }).forEach(function (node) {
        if (small.every(function (s) { return s.ranks !== node.ranks; })) small.push({ ranks: node.ranks, n: node.n[0] });
      });
    });
    css.set(all, "sa");
    // Beside a culprit, sets that are mostly other ranks are quiet.
    if (culprits && culprits !== all) {
      var quiet = small.filter(function (set) { return 2 * common(model.universe.of(parseSet(set.ranks)), model.culprits) < set.n; });
      small = small.filter(function (set) { return quiet.indexOf(set) < 0; });
      quiet.forEach(function (set) { css.set(set.ranks, "sq"); });
      if (quiet.length) legend.push(["sq", quiet.length === 1 ? xpurun.ranksText(quiet[0].ranks) : xpurun.t("some of the other ranks")]);
    }
    small.forEach(function (set, i) {
      css.set(set.ranks, i < COLORS ? "s" + (i + 1) : "sx");
      if (i < COLORS) legend.push([css.get(set.ranks), xpurun.t("{0}: {1} of {2}", xpurun.ranksText(set.ranks), set.n, total) + (set.ranks === culprits ? xpurun.t(", the culprit") : "")]);
    });
    if (small.length > COLORS) legend.push(["sx", xpurun.t("other small sets")]);
    large.forEach(function (ranks) { css.set(ranks, "sm"); });
    if (large.length) legend.push(["sm", large.length === 1 ? xpurun.ranksText(large[0]) : xpurun.t("most ranks ({0} sets)", large.length)]);
    if (allSeen && all) legend.push(["sa", total === 1 ? xpurun.ranksText(all) : xpurun.t("all {0} ranks", total)]);
    legend.sort(function (a, b) { return (b[0] === "s1") - (a[0] === "s1"); });
    this.legend = legend;
    this.of = function (node) { return node.ranks === "" ? "sn" : css.get(node.ranks) || "sx"; };
  };
})();
