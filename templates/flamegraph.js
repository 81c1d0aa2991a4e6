// Zoom, search and keyboard for every svg.fg[data-layer] in the document, be it a page or the SVG file itself. Reads the
// static picture's own coordinates, so the picture is complete without this. State lives in the URL's hash:
// #fg=merged&z=<panel>.<box>&q=<regex>&c=frames
(function () {
  "use strict";
  var ROW = 19, CHAR = 6.65, PAD = 5, MARGIN = 12;
  var LEVELS = 6; // Screen readers know no deeper ones.
  var alone = document.documentElement.localName === "svg";
  var graphs = {};

  function fit(label, width) {
    var columns = Math.floor((width - 2 * PAD) / CHAR);
    if (label.length <= columns) return label;
    return columns < 3 ? "" : label.slice(0, columns - 1) + "…";
  }

  function readHash() {
    var out = {};
    location.hash.slice(1).split("&").forEach(function (part) {
      var at = part.indexOf("=");
      if (at > 0) {
        try { out[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1)); } catch (e) { /* not ours */ }
      }
    });
    return out;
  }

  function Graph(svg) {
    this.svg = svg;
    this.layer = svg.getAttribute("data-layer");
    this.width = svg.viewBox.baseVal.width;
    this.height = svg.viewBox.baseVal.height;
    this.zoomed = null;
    this.query = "";
    this.onstate = null;
    this.read();
    this.listen();
  }

  Graph.prototype.read = function () {
    var inner = this.width - 2 * MARGIN;
    this.inner = inner;
    this.panels = Array.prototype.map.call(this.svg.querySelectorAll(".boxes"), function (group, pi) {
      var panel = { group: group, boxes: [] };
      var open = [];
      Array.prototype.forEach.call(group.children, function (g, i) {
        var rect = g.querySelector("rect"), y = +rect.getAttribute("y");
        var box = {
          g: g, rect: rect, text: g.querySelector("text"), panel: pi, index: i,
          x: (+rect.getAttribute("x") - MARGIN) / inner, w: +rect.getAttribute("width") / inner,
          label: g.querySelector("title").textContent.split("\n")[0],
          note: g.getAttribute("data-d") || "", n: +g.getAttribute("data-n"), kids: []
        };
        if (i === 0) panel.top = y;
        box.depth = Math.round((y - panel.top) / ROW);
        open.length = box.depth;
        box.parent = box.depth ? open[box.depth - 1] : null;
        if (box.parent) box.parent.kids.push(box);
        open[box.depth] = box;
        g.setAttribute("role", "treeitem");
        g.setAttribute("aria-level", Math.min(box.depth + 1, LEVELS));
        g.setAttribute("tabindex", pi === 0 && i === 0 ? "0" : "-1");
        g.xpurunBox = box;
        panel.boxes.push(box);
      });
      group.setAttribute("role", "tree");
      return panel;
    });
  };

  Graph.prototype.place = function (box, x, w) {
    var px = MARGIN + x * this.inner, pw = Math.max(w * this.inner, 1);
    box.rect.setAttribute("x", px.toFixed(2));
    box.rect.setAttribute("width", pw.toFixed(2));
    box.text.setAttribute("x", (px + PAD).toFixed(2));
    var whole = box.note ? box.label + " · " + box.note : box.label;
    var columns = Math.floor((pw - 2 * PAD) / CHAR);
    box.text.textContent = whole.length <= columns ? whole : fit(box.label, pw);
  };

  Graph.prototype.layout = function () {
    var zoom = this.zoomed, self = this;
    this.panels.forEach(function (panel, pi) {
      var z = zoom && zoom.panel === pi ? zoom : null;
      panel.boxes.forEach(function (box) {
        var inside = !z || (box.x >= z.x - 1e-6 && box.x + box.w <= z.x + z.w + 1e-6 && box.depth >= z.depth);
        var above = z && !inside && box.depth < z.depth && box.x <= z.x + 1e-6 && box.x + box.w >= z.x + z.w - 1e-6;
        box.g.classList.toggle("gone", !inside && !above);
        box.g.classList.toggle("dim", !!above);
        if (above) self.place(box, 0, 1);
        else if (inside) self.place(box, z ? (box.x - z.x) / z.w : box.x, z ? box.w / z.w : box.w);
      });
    });
  };

  // In a page the picture takes the width that there is; a file keeps its own.
  Graph.prototype.resize = function (width) {
    if (width < 300 || Math.abs(width - this.width) < 1) return;
    this.width = width;
    this.inner = width - 2 * MARGIN;
    this.svg.setAttribute("viewBox", "0 0 " + width + " " + this.height);
    this.svg.setAttribute("width", width);
    this.layout();
  };

  Graph.prototype.zoom = function (box) {
    this.zoomed = box;
    this.layout();
    this.changed();
  };

  Graph.prototype.search = function (query) {
    this.query = query;
    var re = null, ranks = Object.create(null), hits = 0, total = 0, self = this;
    if (query) {
      try { re = new RegExp(query, "i"); } catch (e) { this.say("not a regular expression"); return; }
    }
    this.svg.classList.toggle("searching", !!re);
    this.panels.forEach(function (panel, pi) {
      panel.boxes.forEach(function (box) {
        var hit = !!re && re.test(box.label);
        box.g.classList.toggle("hit", hit);
        box.hit = hit;
        if (hit) hits++;
        if (pi !== 0) return;
        if (!box.parent) total += box.n;
        // Share of the first panel: boxes below a hit add nothing.
        for (var p = box.parent; p; p = p.parent) if (p.hit) return;
        if (hit) ranks[box.index] = box.n;
      });
    });
    var matched = 0;
    Object.keys(ranks).forEach(function (k) { matched += ranks[k]; });
    self.say(re ? hits + (hits === 1 ? " frame matches, " : " frames match, ") + Math.round(100 * matched / (total || 1)) + " % of the main threads" : "");
    this.changed();
  };

  Graph.prototype.say = function (text) {
    var at = this.found || this.svg.querySelector(".found");
    if (at) at.textContent = text;
  };

  Graph.prototype.colors = function (mode) {
    this.svg.setAttribute("data-colors", mode);
    this.changed();
  };
  Graph.prototype.toggleColors = function () {
    this.colors(this.svg.getAttribute("data-colors") === "frames" ? "ranks" : "frames");
  };
  Graph.prototype.reset = function () {
    this.search("");
    this.zoom(null);
  };

  Graph.prototype.changed = function () {
    if (this.restoring) return;
    var parts = ["fg=" + this.layer];
    if (this.zoomed) parts.push("z=" + this.zoomed.panel + "." + this.zoomed.index);
    if (this.query) parts.push("q=" + encodeURIComponent(this.query));
    if (this.svg.getAttribute("data-colors") === "frames") parts.push("c=frames");
    try { history.replaceState(null, "", "#" + parts.join("&")); } catch (e) { /* no history here */ }
    if (this.onstate) this.onstate();
  };

  Graph.prototype.restore = function (state) {
    this.restoring = true;
    var at = /^(\d+)\.(\d+)$/.exec(state.z || "");
    var panel = at && this.panels[+at[1]];
    this.zoom(panel && panel.boxes[+at[2]] || null);
    this.search(state.q || "");
    this.colors(state.c === "frames" ? "frames" : "ranks");
    this.restoring = false;
  };

  Graph.prototype.focus = function (box) {
    if (!box || box.g.classList.contains("gone")) return;
    var old = this.svg.querySelector('.f[tabindex="0"]');
    if (old) old.setAttribute("tabindex", "-1");
    box.g.setAttribute("tabindex", "0");
    box.g.focus();
  };

  Graph.prototype.listen = function () {
    var self = this;
    function boxOf(event) {
      var g = event.target.closest && event.target.closest(".f");
      return g && g.xpurunBox;
    }
    this.svg.addEventListener("click", function (event) {
      var box = boxOf(event);
      if (box) self.zoom(self.zoomed === box ? null : box);
    });
    this.svg.addEventListener("keydown", function (event) {
      var box = boxOf(event);
      if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
      var row = box.parent ? box.parent.kids : self.panels[box.panel].boxes.filter(function (b) { return !b.parent; });
      var at = row.indexOf(box), done = true;
      if (event.key === "ArrowUp") self.focus(box.parent);
      else if (event.key === "ArrowDown") self.focus(box.kids[box.kids.length - 1]);
      else if (event.key === "ArrowLeft") self.focus(row[at - 1]);
      else if (event.key === "ArrowRight") self.focus(row[at + 1]);
      else if (event.key === "Enter" || event.key === " ") self.zoom(self.zoomed === box ? null : box);
      else done = false;
      if (done) event.preventDefault();
    });
  };

  Array.prototype.forEach.call(document.querySelectorAll("svg.fg[data-layer]"), function (svg) {
    var graph = new Graph(svg);
    graphs[graph.layer] = graph;
  });

  function ask(graph) {
    var query = window.prompt("Search frames (regular expression)", graph.query);
    if (query !== null) graph.search(query);
  }

  // The file's own buttons, in the corner; a page brings its own.
  function addTools(graph) {
    var tools = graph.svg.querySelector(".tools"), x = graph.width - MARGIN;
    if (!tools) return;
    [["Search (/)", function () { ask(graph); }], ["Colours (c)", function () { graph.toggleColors(); }],
     ["Reset (Esc)", function () { graph.reset(); }]].forEach(function (tool) {
      var g = document.createElementNS(graph.svg.namespaceURI, "g");
      var rect = document.createElementNS(graph.svg.namespaceURI, "rect");
      var text = document.createElementNS(graph.svg.namespaceURI, "text");
      x -= 92;
      g.setAttribute("class", "tool");
      g.setAttribute("role", "button");
      g.setAttribute("tabindex", "0");
      rect.setAttribute("x", x); rect.setAttribute("y", 9); rect.setAttribute("rx", 5);
      rect.setAttribute("width", 86); rect.setAttribute("height", 24);
      text.setAttribute("x", x + 43); text.setAttribute("y", 25);
      text.textContent = tool[0];
      g.append(rect, text);
      g.addEventListener("click", tool[1]);
      g.addEventListener("keydown", function (event) {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); tool[1](); }
      });
      tools.append(g);
    });
  }

  if (alone && graphs[document.documentElement.getAttribute("data-layer")]) {
    var only = graphs[document.documentElement.getAttribute("data-layer")];
    addTools(only);
    document.addEventListener("keydown", function (event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "/") { event.preventDefault(); ask(only); }
      else if (event.key === "c") only.toggleColors();
      else if (event.key === "Escape") only.reset();
    });
  }

  function restoreAll() {
    var state = readHash();
    if (!alone && !state.fg) return;
    var graph = graphs[state.fg] || (alone && only);
    if (graph) graph.restore(state);
  }
  restoreAll();
  window.addEventListener("hashchange", restoreAll);
  window.xpurunGraphs = graphs;
})();
