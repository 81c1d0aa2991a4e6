// Draws the page's stacks from their data: flame graph with zoom, search, filters, comparison, keyboard and a text tree.
// Everything about a view stands in the URL: #stacks?layer=python&ranks=0-7,!3&zoom=0.1a2b3c
(function () {
  "use strict";
  var xpurun = window.xpurun, NS = "http://www.w3.org/2000/svg";
  var ROW = 19, CHAR = 6.65, PAD = 5, HEAD = 30, GAP = 14, MOST = 6000;
  var LEVELS = 6; // Screen readers know no deeper ones.
  var byId = function (id) { return document.getElementById(id); };
  var stage = byId("stage"), form = byId("view");
  if (!stage || !form) return;

  // The view's parameters and what each is when the URL does not say.
  var DEFAULTS = {
    layer: "merged", code: "own", width: "ranks", ranks: "", thread: "", process: "", state: "", compare: "", group: "", against: "",
    colors: "ranks", q: "", zoom: "", fn: "", diff: false, reverse: false, flame: false, others: false, text: false
  };
  var CHOICES = { layer: ["merged", "python", "native"], code: ["own", "calls", "all"], width: ["ranks", "threads"], colors: ["ranks", "frames"] };
  var GIL = { h: xpurun.t("holding the GIL"), w: xpurun.t("waiting for the GIL"), d: xpurun.t("giving up the GIL") };
  var view = Object.assign({ moment: 0 }, DEFAULTS), unknown = "", model, built, palette, focused = null, pattern = null, badPattern = false;

  // --- URL
  function readHash() {
    var next = Object.assign({ moment: 0 }, DEFAULTS), at = location.hash.indexOf("?"), wrong = [];
    if (location.hash.slice(0, 8) === "#stacks?") {
      new URLSearchParams(location.hash.slice(at + 1)).forEach(function (value, key) {
        // Names of an earlier version.
        if (key === "nolib" || key === "nointerp") { if (value === "1") next.code = key === "nolib" ? "own" : "calls"; return; }
        if (!(key in DEFAULTS)) { wrong.push(xpurun.t("{0}: no such setting", key)); return; }
        next[key] = typeof DEFAULTS[key] === "boolean" ? value === "1" : value;
      });
    }
    Object.keys(CHOICES).forEach(function (key) {
      if (CHOICES[key].indexOf(next[key]) >= 0) return;
      wrong.push(xpurun.t("{0}={1}: there are {2}", key, next[key], CHOICES[key].join(", ")));
      next[key] = DEFAULTS[key];
    });
    var dumps = model.data.moments.length;
    if (next.compare !== "" && next.compare !== "ranks" && !(/^\d+$/.test(next.compare) && +next.compare > 0 && +next.compare < dumps)) {
      wrong.push(dumps > 1 ? xpurun.t("compare={0}: this page has no such dump; there are ranks and 1-{1}", next.compare, dumps - 1)
        : xpurun.t("compare={0}: this page has no such dump; there are ranks", next.compare));
      next.compare = "";
    }
    if (next.fn && model.data.labels.indexOf(next.fn) < 0) {
      wrong.push(xpurun.t("fn={0}: no such function here", next.fn));
      next.fn = "";
    }
    unknown = wrong.length ? xpurun.t("In the address: {0}.", wrong.join("; ")) : "";
    return next;
  }
  function hash() {
    var out = new URLSearchParams();
    Object.keys(DEFAULTS).forEach(function (key) {
      if (view[key] !== DEFAULTS[key]) out.set(key, view[key] === true ? "1" : view[key]);
    });
    var text = out.toString();
    return text ? "#stacks?" + text : "";
  }
  function remember(push) {
    var wanted = hash();
    if (wanted === location.hash || !wanted && location.hash.slice(0, 8) !== "#stacks?") return;
    try { history[push ? "pushState" : "replaceState"](null, "", wanted || location.pathname + location.search); } catch (e) { /* no history here */ }
  }

  // --- drawing
  function make(name, attributes, text) {
    var el = document.createElementNS(NS, name);
    Object.keys(attributes).forEach(function (key) { el.setAttribute(key, attributes[key]); });
    if (text !== undefined) el.textContent = text;
    return el;
  }
  function fit(label, note, width) {
    var columns = Math.floor((width - 2 * PAD) / CHAR), whole = note ? label + " · " + note : label;
    if (whole.length <= columns) return whole;
    if (label.length <= columns) return label;
    return columns < 3 ? "" : label.slice(0, columns - 1) + "…";
  }
  function signed(n) { return (n > 0 ? "+" : n < 0 ? "−" : "±") + Math.abs(Math.round(n * 100)) + " %"; }
  function noteOf(node) {
    if (built.compared) return Math.abs(node.delta) > 0.005 ? signed(node.delta) : "";
    return node.diverges ? xpurun.ranksText(node.ranks) : "";
  }
  function processes(n) { return n === 1 ? xpurun.t("{0} process", n) : xpurun.t("{0} processes", n); }
  function unit(n) { return view.width !== "threads" ? processes(n) : n === 1 ? xpurun.t("{0} thread", n) : xpurun.t("{0} threads", n); }
  function count(n) { return n === 1 ? xpurun.t("{0} rank", n) : xpurun.t("{0} ranks", n); }
  function stateText(states) {
    var words = { R: xpurun.t("running"), S: xpurun.t("sleeping"), I: xpurun.t("sleeping"), D: xpurun.t("uninterruptible"),
      T: xpurun.t("stopped"), t: xpurun.t("stopped") }, sums = {};
    Object.keys(states).forEach(function (key) {
      var word = words[key[0]] || xpurun.t("in an unknown state");
      sums[word] = (sums[word] || 0) + states[key];
      if (key[1]) {
        word = GIL[key[1]] || xpurun.t("in an unknown state");
        sums[word] = (sums[word] || 0) + states[key];
      }
    });
    return Object.keys(sums).filter(function (w) { return sums[w]; }).map(function (w) { return sums[w] + " " + w; }).join(", ");
  }
  function describe(node, panel) {
    var share = Math.round(100 * node.weight / (panel.total || 1)), who;
    if (built.compared) {
      var what = view.width === "threads" ? node.threads : node.n;
      who = xpurun.t("{0}: {1} of {2}", sideName(0), what[0], panel.totals[0]) + "; " +
        xpurun.t("{0}: {1} of {2}", sideName(1), what[1], panel.totals[1]) + " (" + signed(node.delta) + ")";
    } else if (view.width === "threads") {
      who = (node.ranks ? xpurun.ranksText(node.ranks) + ", " : "") + unit(node.weight) + ", " + xpurun.t("{0} % of this panel", share);
    } else {
      who = node.ranks ? xpurun.ranksText(node.ranks) + (/^\d+$/.test(node.ranks) ? "" : " (" + count(node.weight) + ")") + ", " + xpurun.t("{0} % of this panel", share)
        : processes(node.weight);
    }
    var states = stateText(node.states), detail = node.frame < 0 ? "" : model.data.details[node.frame];
    return node.label + "\n" + who + (states ? "\n" + xpurun.t("Threads: {0}", states) : "") + (detail ? "\n" + detail : "");
  }
  function sideName(side) {
    if (view.compare !== "ranks") return model.data.moments[side ? +view.compare : view.moment].name;
    if (side) return view.against ? xpurun.ranksText(view.against) : xpurun.t("the others");
    return view.group ? xpurun.ranksText(view.group) : xpurun.t("no group");
  }
  function look(node) {
    var kind = node.frame < 0 ? "m" : model.data.kinds[node.frame], css;
    if (built.compared) {
      var d = Math.abs(node.delta), level = d < 0.005 ? 0 : d < 0.1 ? 1 : d < 0.4 ? 2 : 3;
      css = level === 0 ? "sa" : (node.delta > 0 !== built.inverted ? "up" : "dn") + level;
    } else css = palette.of(node);
    return css + " k" + (kind === "e" ? "n" : kind);
  }

  // The boxes of a panel in the current zoom, outermost first: [node, x, width, dimmed]
  function boxesOf(panel, zoomed, least) {
    var out = [];
    function place(node, x, width) {
      if (width < least || out.length >= MOST) return;
      out.push([node, x, width, false]);
      below(node, x, width);
    }
    function below(node, x, width) {
      xpurun.childWidths(node, width).forEach(function (w, i) { place(node.kids[i], x, w); x += w; });
    }
    if (!zoomed) { below(panel.root, 0, 1); return out; }
    for (var p = zoomed.parent; p.parent; p = p.parent) out.unshift([p, 0, 1, true]);
    place(zoomed, 0, 1);
    return out;
  }
  function zoomTarget() {
    var m = /^(\d+)\.([0-9a-z]+)$/.exec(view.zoom), panel = m && built.panels[+m[1]];
    return panel && panel.nodes.get(parseInt(m[2], 36)) || null;
  }
  function zoomKey(panel, node) { return panel.index + "." + node.id.toString(36); }

  function draw() {
    // Drawn in units of a 16 px page; large screens and large type scale it.
    var scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1;
    var width = Math.max(stage.clientWidth / scale, 300), inner = width - 2 * PAD * 2, left = 2 * PAD, top = 4;
    var target = zoomTarget(), svg = make("svg", { "class": "fg", role: "group", "aria-label": view.width === "ranks" ? model.alone ? xpurun.t("Merged stacks, width is processes") : xpurun.t("Merged stacks, width is ranks") : xpurun.t("Merged stacks, width is threads"), "data-colors": view.colors });
    var refocus = null, hidden = 0;
    svg.classList.toggle("searching", !!pattern);
    built.panels.forEach(function (panel) {
      if (isFolded(panel)) {
        svg.append(foldButton(panel, left, top));
        top += HEAD;
        return;
      }
      var zoomed = target && panel.nodes.get(target.id) === target ? target : null;
      var boxes = boxesOf(panel, zoomed, 0.4 / inner), depth = 1;
      boxes.forEach(function (b) { depth = Math.max(depth, b[0].depth + 1); });
      hidden += zoomed ? 0 : panel.nodes.size - boxes.length;
      svg.append(panel.others && built.panels.length > 1 ? foldButton(panel, left, top) : make("text", { "class": "ph", x: left, y: top + 19 }, title(panel)));
      var group = make("g", { "class": "boxes", role: "tree", "aria-label": title(panel) });
      boxes.forEach(function (b, i) {
        var node = b[0], x = left + b[1] * inner, w = Math.max(b[2] * inner, 1);
        var y = top + HEAD + (view.flame ? depth - 1 - node.depth : node.depth) * ROW;
        var g = make("g", { "class": "f " + look(node) + (b[3] ? " dim" : "") + (pattern && pattern.test(node.label) ? " hit" : ""), role: "treeitem",
          "aria-level": Math.min(node.depth + 1, LEVELS), tabindex: panel.index === 0 && i === 0 ? 0 : -1 });
        if (node.kids.length) g.setAttribute("aria-expanded", "true");
        var box = { x: x.toFixed(2), y: y, width: w.toFixed(2), height: ROW - 1 };
        g.append(make("title", {}, describe(node, panel)), make("rect", box));
        // Two outlines, a light and a dark one, are seen on every colour.
        if (g.classList.contains("hit")) g.append(make("rect", Object.assign({ "class": "halo" }, box)), make("rect", Object.assign({ "class": "mark" }, box)));
        g.append(make("text", { x: (x + PAD).toFixed(2), y: y + 13 }, fit(node.label, noteOf(node), w)));
        g.xpurunNode = node;
        g.xpurunPanel = panel;
        node.g = g;
        if (focused && focused.id === node.id && focused.panel === panel.index) refocus = g;
        group.append(g);
      });
      svg.append(group);
      top += HEAD + depth * ROW + GAP;
    });
    if (!built.panels.length) {
      svg.append(make("text", { "class": "ph", x: left, y: 24 }, view.diff ? xpurun.t("No stack differs in this view.") : xpurun.t("No stacks in this view.")));
      top = 44;
    }
    svg.setAttribute("viewBox", "0 0 " + width + " " + top);
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", top * scale);
    stage.replaceChildren(svg);
    if (refocus) { refocus.setAttribute("tabindex", "0"); refocus.focus({ preventScroll: true }); }
    byId("too-small").textContent = hidden > 0 ? xpurun.t("{0} frames are too narrow to draw here; zoom in to see them.", hidden) : "";
  }
  function isFolded(panel) { return panel.others && !view.others && built.panels.length > 1; }
  function foldButton(panel, x, y) {
    var folded = isFolded(panel), g = make("g", { "class": "fold", role: "button", tabindex: 0, "aria-expanded": folded ? "false" : "true", "aria-label": title(panel) });
    g.append(make("rect", { x: x - 4, y: y + 3, width: 8 * (title(panel).length + 4), height: 24, rx: 5 }),
      make("text", { "class": "ph", x: x, y: y + 19 }, (folded ? "▸ " : "▾ ") + title(panel)));
    return g;
  }
  function title(panel) {
    if (built.compared) return xpurun.t("{0}: {1} compared with {2}", panel.title, sideName(0), sideName(1));
    if (view.fn) return panel.title;
    var n = panel.root.n[0];
    if (!panel.main) return panel.title;
    return n === 1 ? xpurun.t("Main thread of the rank") : xpurun.t("Main threads of {0} ranks", n);
  }

  xpurun.viewText = function () { drawText(); return byId("as-text").textContent; };
  function drawText() {
    var lines = [];
    built.panels.forEach(function (panel) {
      lines.push(title(panel));
      (function below(node, indent) {
        node.kids.forEach(function (kid) {
          for (var at = kid, first = true; at; first = false) {
            var who = built.compared ? signed(at.delta) : (at.ranks ? xpurun.ranksText(at.ranks) : unit(at.weight));
            lines.push(indent + (first ? "┬ " : "│ ") + at.label + (first ? "  [" + who + "]" : ""));
            if (at.kids.length !== 1 || at.kids[0].weight !== at.weight || lines.length > 4000) { below(at, indent + "│ "); break; }
            at = at.kids[0];
          }
        });
      })(panel.root, "  ");
      lines.push("");
    });
    byId("as-text").textContent = lines.join("\n");
  }

  function showLegend() {
    var list = byId("legend"), entries = palette.legend;
    if (view.colors === "frames") entries = [["kp", "Python"], ["kn", xpurun.t("native")], ["kk", xpurun.t("kernel")], ["kg", "GPU"], ["km", xpurun.t("other")]];
    else if (built.compared) {
      var more = built.inverted ? ["dn3", "up3"] : ["up3", "dn3"];
      entries = [[more[0], xpurun.t("more in {0}", sideName(0))], [more[1], xpurun.t("more in {0}", sideName(1))], ["sa", xpurun.t("the same share in both")]];
    }
    list.replaceChildren.apply(list, entries.map(function (e) {
      var li = document.createElement("li"), svg = make("svg", { "class": "fg", viewBox: "0 0 22 14", width: 22, height: 14, "aria-hidden": "true", "data-colors": view.colors });
      var g = make("g", { "class": e[0] });
      g.append(make("rect", { width: 22, height: 14, rx: 3 }));
      svg.append(g);
      li.append(svg, document.createTextNode(e[1]));
      return li;
    }));
  }

  function showFound() {
    var out = byId("found"), hits = 0, shared = null, panel = built.panels[0], n = 0;
    if (badPattern) { out.textContent = xpurun.t("not a regular expression"); return; }
    if (!pattern || !panel) { out.textContent = ""; return; }
    built.panels.forEach(function (p) {
      p.nodes.forEach(function (node) { if (pattern.test(node.label)) hits++; });
    });
    // Of the first panel: ranks with a match anywhere in their stacks, or threads.
    (function below(node) {
      node.kids.forEach(function (kid) {
        if (!pattern.test(kid.label)) { below(kid); return; }
        n += kid.weight;
        shared = shared || kid.bits.map(function (b) { return new Uint32Array(b.length); });
        kid.bits.forEach(function (bits, i) { for (var w = 0; w < bits.length; w++) shared[i][w] |= bits[w]; });
      });
    })(panel.root);
    if (view.width !== "threads") n = shared ? shared.reduce(function (sum, bits) { return sum + xpurun.count(bits); }, 0) : 0;
    var share = Math.round(100 * n / (panel.total || 1)), of = panel.main ? xpurun.t("the main threads") : panel.title.toLowerCase();
    out.textContent = hits === 1 ? xpurun.t("{0} frame matches, {1} % of {2}", hits, share, of)
      : xpurun.t("{0} frames match, {1} % of {2}", hits, share, of);
  }

  // --- one place that brings the page up to date
  function refresh(push) {
    pattern = null;
    badPattern = false;
    if (view.q) try { pattern = new RegExp(view.q, "i"); } catch (e) { badPattern = true; }
    built = model.build(view);
    palette = new xpurun.Palette(built, model);
    draw();
    byId("as-text").hidden = !view.text;
    stage.parentElement.hidden = view.text;
    if (view.text) drawText();
    showLegend();
    showFound();
    byId("view-error").textContent = [unknown, built.error].filter(Boolean).join(" ");
    byId("difference").textContent = model.difference(built, [sideName(0), built.compared ? sideName(1) : ""]);
    showControls();
    if (xpurun.showFunctions) xpurun.showFunctions(model, view, pattern);
    remember(push);
  }
  function showControls() {
    Array.prototype.forEach.call(form.elements, function (el) {
      if (!(el.name in DEFAULTS)) return;
      if (el.type === "radio") el.checked = el.value === view[el.name];
      else if (el.type === "checkbox") el.checked = view[el.name];
      else if (el !== document.activeElement || el.localName === "select") el.value = view[el.name];
    });
    byId("group-field").hidden = byId("against-field").hidden = view.compare !== "ranks";
    byId("sandwich").hidden = !view.fn;
    byId("sandwich-of").textContent = view.fn;
    var changed = ["ranks", "thread", "process", "state", "compare", "diff", "reverse", "flame"].filter(function (key) { return view[key] !== DEFAULTS[key]; });
    byId("more-count").textContent = changed.length ? " · " + xpurun.t("{0} in use", changed.length) : "";
    byId("unzoom").hidden = !zoomTarget();
  }
  function set(key, value, push) {
    unknown = "";
    view[key] = value;
    refresh(push);
  }

  function fill(select, values, word) {
    values.forEach(function (v) {
      var option = document.createElement("option");
      option.value = v[0];
      option.textContent = v[1];
      select.append(option);
    });
    select.closest("label").hidden = values.length < 2 && !word;
  }
  function unique(list) { return Array.from(new Set(list)); }
  function fillControls() {
    var data = model.data, states = { R: xpurun.t("running"), S: xpurun.t("sleeping"), D: xpurun.t("uninterruptible"), T: xpurun.t("stopped"),
      t: xpurun.t("traced"), Z: xpurun.t("dead") };
    fill(form.elements.thread, unique(data.roles.map(function (r) { return r[1]; })).sort().map(function (t) { return [t, t]; }));
    fill(form.elements.process, unique(data.roles.map(function (r) { return r[0]; })).map(function (p) { return [p, p]; }));
    var seen = unique((data.stacks.state || []).map(function (s) { return s[0]; })).filter(function (s) { return states[s]; }).map(function (s) { return [s, states[s]]; });
    Object.keys(GIL).forEach(function (letter) {
      if (data.stacks.state.some(function (s) { return s[1] === letter; })) seen.push(["*" + letter, GIL[letter]]);
    });
    fill(form.elements.state, seen);
    var others = data.moments.map(function (m, i) { return ["" + i, xpurun.t("with {0}", m.name)]; }).slice(1);
    fill(form.elements.compare, (model.alone ? [] : [["ranks", xpurun.t("ranks with other ranks")]]).concat(others), !model.alone || others.length > 0);
  }

  function copyLink() {
    remember(false);
    // Where the file lies here means nothing to who gets the page by mail: only the view is copied.
    var mailed = location.protocol === "file:";
    xpurun.copy(mailed ? hash() || "#stacks" : location.href, mailed ? xpurun.t("copied; to be added to the page's address") : xpurun.t("copied"), byId("copied"));
  }

  // Callers and callees of a function, in the place of the whole picture.
  xpurun.showFunction = function (label) {
    view.zoom = "";
    set("fn", label, true);
    byId("stacks").scrollIntoView();
    byId("sandwich-close").focus({ preventScroll: true });
  };

  function listen() {
    var toldNode = null, told = "";  // the function that the line below the picture is about
    function nodeOf(event) { var g = event.target.closest && event.target.closest(".f"); return g || null; }
    function toggleZoom(g) {
      var key = zoomKey(g.xpurunPanel, g.xpurunNode);
      focused = { id: g.xpurunNode.id, panel: g.xpurunPanel.index };
      set("zoom", view.zoom === key ? "" : key, true);
    }
    function focus(node) {
      if (!node || !node.g || !node.g.isConnected) return;
      var old = stage.querySelector('.f[tabindex="0"]');
      if (old) old.setAttribute("tabindex", "-1");
      node.g.setAttribute("tabindex", "0");
      node.g.focus();
    }
    function tell(event) {
      var g = nodeOf(event);
      if (!g) return;
      byId("info-text").textContent = g.querySelector("title").textContent.split("\n").join("  ·  ");
      told = g.xpurunNode.frame < 0 ? "" : g.xpurunNode.label;
      byId("info-fn").hidden = !told || told === view.fn;
      toldNode = g.xpurunNode;
      byId("info-copy").hidden = false;
    }
    // From the frame outwards, one a line.
    function stackText(node) {
      var lines = [];
      for (var at = node; at && at.parent; at = at.parent) lines.push(at.label);
      return lines.join("\n") + "\n";
    }
    function copyStack() {
      if (toldNode) xpurun.copy(stackText(toldNode), xpurun.t("copied"), byId("info-copied"));
    }
    function showKeys() {
      var keys = byId("keys"), hidden = keys.hidden;
      keys.hidden = !hidden;
      byId("keys-button").setAttribute("aria-expanded", String(hidden));
    }
    stage.addEventListener("click", function (event) {
      var g = nodeOf(event);
      if (g) toggleZoom(g); else if (event.target.closest(".fold")) unfold();
    });
    function unfold() {
      set("others", !view.others, false);
      stage.querySelector(".fold").focus({ preventScroll: true });
    }
    byId("info-copy").addEventListener("click", copyStack);
    byId("keys-button").addEventListener("click", showKeys);
    byId("info-fn").addEventListener("click", function () { if (told) xpurun.showFunction(told); });
    byId("sandwich-close").addEventListener("click", function () { set("fn", "", true); });
    stage.addEventListener("mouseover", tell);
    stage.addEventListener("focusin", tell);
    stage.addEventListener("keydown", function (event) {
      var g = nodeOf(event);
      if (event.target.closest(".fold") && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); unfold(); return; }
      if (!g || event.ctrlKey || event.metaKey || event.altKey) return;
      var node = g.xpurunNode, row = node.parent.kids, at = row.indexOf(node), done = true;
      var inward = view.flame ? "ArrowUp" : "ArrowDown", outward = view.flame ? "ArrowDown" : "ArrowUp";
      if (event.key === outward) focus(node.parent.parent ? node.parent : null);
      else if (event.key === inward) focus(node.kids[node.kids.length - 1]);
      else if (event.key === "ArrowLeft") focus(row[at - 1]);
      else if (event.key === "ArrowRight") focus(row[at + 1]);
      else if (event.key === "Home") focus(g.xpurunPanel.root.kids[0]);
      else if (event.key === "Enter" || event.key === " ") toggleZoom(g);
      else if (event.key === "s" && node.frame >= 0) xpurun.showFunction(node.label);
      else if (event.key === "c") copyStack();
      else done = false;
      if (done) event.preventDefault();
    });
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    form.addEventListener("input", function (event) {
      var el = event.target;
      if (!(el.name in DEFAULTS)) return;
      unknown = "";
      view[el.name] = el.type === "checkbox" ? el.checked : el.value;
      refresh(false);
    });
    byId("reset").addEventListener("click", function () { view = Object.assign({ moment: 0 }, DEFAULTS); unknown = ""; refresh(true); });
    byId("unzoom").addEventListener("click", function () { set("zoom", "", true); });
    byId("copy").addEventListener("click", copyLink);
    document.addEventListener("keydown", function (event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      var typing = /^(input|textarea|select)$/i.test(event.target.localName) && !/^(radio|checkbox)$/.test(event.target.type);
      if (event.key === "/" && !typing) { event.preventDefault(); form.elements.q.focus(); }
      else if (event.key === "?" && !typing) { event.preventDefault(); showKeys(); }
      else if (event.key === "Escape" && (view.zoom || view.q || view.fn)) { view.zoom = view.q = view.fn = form.elements.q.value = ""; refresh(false); }
    });
    window.addEventListener("hashchange", restore);
    window.addEventListener("popstate", restore);
    var drawn = stage.clientWidth;
    new ResizeObserver(function () {
      if (Math.abs(stage.clientWidth - drawn) < 2) return;
      drawn = stage.clientWidth;
      requestAnimationFrame(draw);
    }).observe(stage);
  }
  function restore() {
    if (hash() === location.hash || location.hash && location.hash.slice(0, 8) !== "#stacks?") return;
    view = readHash();
    refresh(false);
  }

  xpurun.ready = xpurun.unpack("stack-data").then(function (text) {
    model = new xpurun.Model(JSON.parse(text));
    if (model.alone) {
      DEFAULTS.colors = "frames";
      document.querySelector("label[for=width-ranks]").textContent = xpurun.t("processes");
      byId("width-ranks").closest("fieldset").hidden = model.universe.size === 1;
      ["ranks", "colors", "diff"].forEach(function (name) { form.elements[name].closest("label").hidden = true; });
    }
    fillControls();
    form.hidden = false;
    byId("info").hidden = false;
    byId("unscripted").hidden = true;
    document.querySelectorAll(".trees, .files").forEach(function (el) { el.remove(); });
    byId("downloads").hidden = false;
    view = readHash();
    listen();
    refresh(false);
    if (hash()) byId("stacks").scrollIntoView();
    return model;
  }, function (error) {
    byId("view-error").textContent = xpurun.t("Only the static picture can be shown: {0}", error.message);
  });
})();
