// The calls of the ranks over time, on a canvas: zoom and pan by mouse and keyboard, search, the same collective on all
// ranks. Only what is in sight is drawn, and blocks that share a pixel once. Columns of the data: see docs/timeline.md.
(function () {
  "use strict";
  var xpurun = window.xpurun = window.xpurun || {};
  var section = document.getElementById("device");
  if (!section || !document.getElementById("timeline-data")) return;
  var canvas = document.getElementById("tl-canvas"), info = document.getElementById("tl-info"), query = document.getElementById("tl-query");
  var found = document.getElementById("tl-found"), ROW = 14, NAMES = 62, LABEL = 150, AXIS = 22, MOST_HEIGHT = 900;
  var next = document.getElementById("tl-next");
  var data = null, rows = [], from = 0, to = 1, top = 0, selected = null, hits = null, drag = null, waiting = false;

  function sum(deltas) {
    var out = new Float64Array(deltas.length), at = 0;
    for (var i = 0; i < deltas.length; i++) out[i] = at += deltas[i];
    return out;
  }
  // A row's latest end up to each block: blocks of a row may contain others.
  function ends(row) {
    var out = new Float64Array(row.b.length), latest = 0;
    for (var i = 0; i < out.length; i++) out[i] = latest = Math.max(latest, row.b[i] + row.d[i]);
    return out;
  }
  // The first index whose value is not below.
  function first(values, value) {
    var low = 0, high = values.length;
    while (low < high) {
      var middle = low + high >> 1;
      if (values[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  }
  function seconds(ticks) {
    var us = ticks * data.tick_ns / 1000;
    return us < 1000 ? +us.toFixed(1) + " µs" : us < 1e6 ? +(us / 1000).toFixed(3) + " ms" : +(us / 1e6).toFixed(4) + " s";
  }
  // The time of day of a tick, with as many digits as `step` ticks tell apart: "21:45:28.120".
  function clock(tick, step) {
    var ns = Number(BigInt(data.begin_ns) % 86400000000000n) + tick * data.tick_ns, us = Math.round(ns / 1000) % 86400e6;
    var digits = Math.max(0, Math.min(6, Math.ceil(9 - Math.log10(step * data.tick_ns)))), s = us / 1e6;
    var two = function (n) { return String(Math.floor(n)).padStart(2, "0"); };
    return two(s / 3600) + ":" + two(s / 60 % 60) + ":" + two(s % 60) + (digits ? (us % 1e6 / 1e6).toFixed(6).slice(1, 2 + digits) : "");
  }
  function width() { return canvas.clientWidth - LABEL; }
  function height() { return Math.min(MOST_HEIGHT, AXIS + rows.length * ROW + 4); }
  function x(tick) { return LABEL + (tick - from) / (to - from) * width(); }
  function color(name) { return getComputedStyle(section).getPropertyValue(name).trim(); }

  function drawAxis(g, ink, rule) {
    // 1, 2 or 5 times a power of ten, at round times of day.
    var power = Math.pow(10, Math.floor(Math.log10(Math.max(1, (to - from) / 8))));
    var step = power * ([1, 2, 5, 10, 20].find(function (n) { return (to - from) / (n * power) <= Math.max(2, width() / 130); }) || 50);
    var offset = Number(BigInt(data.begin_ns) % BigInt(Math.round(step * data.tick_ns))) / data.tick_ns;
    for (var t = Math.ceil((from + offset) / step) * step - offset; t <= to; t += step) {
      g.fillStyle = rule;
      g.fillRect(Math.round(x(t)), AXIS - 6, 1, canvas.clientHeight);
      g.fillStyle = ink;
      g.fillText(clock(t, step), x(t) + 3, 12);
    }
  }
  function drawRow(g, row, y, look) {
    var at = first(row.ends, from), edge = -1, ink = "";
    for (; at < row.b.length && row.b[at] <= to; at++) {
      var left = Math.max(LABEL, x(row.b[at])), right = Math.max(left + 1, x(row.b[at] + row.d[at]));
      var hit = hits && hits[row.n[at]], same = selected && selected.m && row.m[at] === selected.m;
      // Of blocks on one pixel the first is drawn, and every one that was searched for.
      if (right <= edge && !hit && !same && right - left < 2) continue;
      var want = same ? look.mark : look[row.look];
      if (want !== ink) g.fillStyle = ink = want;
      g.globalAlpha = hits && !hit ? 0.2 : 1;
      g.fillRect(left, y + 1, Math.min(right, canvas.clientWidth) - left, ROW - 3);
      if (right - left > 40) {
        g.fillStyle = ink = look.card;
        g.save();
        g.beginPath();
        g.rect(left, y, right - left - 3, ROW);
        g.clip();
        g.fillText(data.names[row.n[at]] + (row.c[at] > 1 ? xpurun.t(" and {0} more", row.c[at] - 1) : ""), left + 3, y + 10);
        g.restore();
      }
      edge = Math.max(edge, Math.ceil(left));
    }
    g.globalAlpha = 1;
  }
  // A line through the chosen collective on all ranks.
  function drawFlow(g, look) {
    if (!selected || !selected.m) return;
    g.strokeStyle = look.mark;
    g.beginPath();
    rows.forEach(function (row, i) {
      var at = row.m.indexOf(selected.m);
      if (at >= 0) g.lineTo(Math.max(LABEL, x(row.b[at])), AXIS + (i - top) * ROW + ROW / 2);
    });
    g.stroke();
  }
  function draw() {
    waiting = false;
    var ratio = window.devicePixelRatio || 1, tall = height();
    canvas.style.height = tall + "px";
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(tall * ratio);
    var g = canvas.getContext("2d"), look = { card: color("--card"), mark: color("--tl-mark") }, ink = color("--ink");
    ["python", "host", "compute", "communication", "memory", "open"].forEach(function (kind) { look[kind] = color("--tl-" + kind); });
    g.scale(ratio, ratio);
    g.font = "11px system-ui, sans-serif";
    LABEL = rows.reduce(function (most, row) { return Math.max(most, NAMES + 8 + g.measureText(row.label).width); }, 150);
    drawAxis(g, ink, color("--rule"));
    for (var i = top; i < rows.length && AXIS + (i - top) * ROW < tall; i++) {
      var y = AXIS + (i - top) * ROW, named = i === top || rows[i - 1].rank !== rows[i].rank;
      drawRow(g, rows[i], y, look);
      g.fillStyle = ink;
      g.fillText((named ? "rank " + rows[i].rank : "") , 4, y + 10);
      g.fillStyle = look[rows[i].look];
      g.fillText(rows[i].label, NAMES, y + 10);
    }
    drawFlow(g, look);
  }
  function later() {
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(draw);
    }
  }
  function show(a, b) {
    var least = 20, most = data.ticks * 1.02, size = Math.min(most, Math.max(least, b - a));
    from = Math.min(Math.max(-0.01 * data.ticks, a), data.ticks * 1.01 - size);
    to = from + size;
    later();
  }
  function zoom(factor, at) { show(at - (at - from) * factor, at + (to - at) * factor); }
  function scroll(by) {
    var seen = Math.floor((height() - AXIS) / ROW);
    top = Math.max(0, Math.min(rows.length - seen, top + by));
    later();
  }
  // Of a single call: shape or bytes and the like, and its rate.
  function details(row, at) {
    var name = row.n[at], text = data.details[name], ns = row.d[at] * data.tick_ns;
    if (row.c[at] > 1) return "";
    if (data.rate[name] && ns > 0) text += (text ? ", " : "") + +(data.work[name] / ns * 1e9).toPrecision(4) + " " + data.rate[name];
    return text ? ", " + text : "";
  }
  function tell(pick) {
    info.textContent = pick ? xpurun.t("rank {0}, {1}: {2}", pick.row.rank, pick.row.label, data.names[pick.row.n[pick.at]])
      + (pick.row.c[pick.at] > 1 ? xpurun.t(" and {0} more calls", pick.row.c[pick.at] - 1) : "")
      + xpurun.t(", at {0}", clock(pick.row.b[pick.at], 10000 / data.tick_ns)) + ", " + seconds(pick.row.d[pick.at]) + details(pick.row, pick.at)
      + (pick.row.m[pick.at] ? xpurun.t("; the line joins this collective on all ranks") : "") : "";
  }
  function choose(row, at) {
    selected = { row: row, at: at, m: row.m[at] };
    tell(selected);
    later();
  }
  // The block under a point; the innermost where blocks contain others.
  function under(event) {
    var box = canvas.getBoundingClientRect(), row = rows[top + Math.floor((event.clientY - box.top - AXIS) / ROW)];
    var tick = from + (event.clientX - box.left - LABEL) / width() * (to - from), slack = (to - from) / width() * 2;
    if (!row || event.clientX - box.left < LABEL) return null;
    for (var i = first(row.b, tick + slack) - 1; i >= 0 && row.ends[i] + slack >= tick; i--)
      if (row.b[i] + row.d[i] + slack >= tick) return { row: row, at: i };
    return null;
  }
  // From block to block of the chosen row, and to the nearest block of the next row.
  function step(by) {
    var row = selected ? selected.row : rows[top], at = selected ? selected.at + by : first(row.ends, from);
    if (at < 0 || at >= row.b.length) return;
    choose(row, at);
    if (row.b[at] < from || row.b[at] > to) show(row.b[at] - (to - from) / 2, row.b[at] + (to - from) / 2);
  }
  function stepRow(by) {
    var index = Math.max(0, rows.indexOf(selected ? selected.row : rows[top])) + (selected ? by : 0), row = rows[index];
    if (!row) return;
    choose(row, Math.min(row.b.length - 1, first(row.b, selected ? selected.row.b[selected.at] : from)));
    if (index < top || AXIS + (index - top + 1) * ROW > height()) scroll(index - top);
  }
  // The hit behind the chosen block: of the same row, then of the rows below, then from the top.
  function nextHit() {
    if (!hits) return;
    var begin = selected ? rows.indexOf(selected.row) : 0, after = selected ? selected.at + 1 : 0;
    for (var i = 0; i <= rows.length; i++) {
      var row = rows[(begin + i) % rows.length];
      for (var at = i ? 0 : after; at < row.b.length; at++) {
        if (!hits[row.n[at]]) continue;
        var index = (begin + i) % rows.length;
        choose(row, at);
        if (row.b[at] < from || row.b[at] > to) show(row.b[at] - (to - from) / 2, row.b[at] + (to - from) / 2);
        if (index < top || AXIS + (index - top + 1) * ROW > height()) scroll(index - top);
        return;
      }
    }
  }
  // The longest times in which a rank's GPU, or without a GPU its Python thread, had no call that was timed.
  var gaps = null, gap = -1;
  function findGaps() {
    var ranks = {};
    rows.forEach(function (row) { if (!row.part) (ranks[row.rank] = ranks[row.rank] || []).push(row); });
    gaps = [];
    Object.keys(ranks).forEach(function (rank) {
      var device = ranks[rank].some(function (row) { return row.kind === "compute"; });
      var used = ranks[rank].filter(function (row) { return device ? row.kind !== "python" && row.kind !== "host" : row.kind === "python"; });
      var blocks = [];
      used.forEach(function (row) { row.b.forEach(function (begin, at) { blocks.push({ row: row, at: at, begin: begin, end: begin + row.d[at] }); }); });
      blocks.sort(function (a, b) { return a.begin - b.begin; });
      blocks.reduce(function (last, block) {
        if (block.begin > last.end) gaps.push({ after: last, before: block, size: block.begin - last.end });
        return block.end > last.end ? block : last;
      }, blocks[0] || { end: 0 });
    });
    gaps.sort(function (a, b) { return b.size - a.size; });
  }
  function nextGap() {
    if (!gaps) findGaps();
    if (!gaps.length) return;
    gap = (gap + 1) % Math.min(gaps.length, 10);
    var found = gaps[gap], name = function (end) { return data.names[end.row.n[end.at]]; };
    selected = { row: found.before.row, at: found.before.at, m: 0 };
    show(found.after.end - found.size * 0.3, found.before.begin + found.size * 0.3);
    info.textContent = xpurun.t("Gap {0}: rank {1}, {2} without a timed call from {3} on, after {4}, before {5}", gap + 1,
      found.before.row.rank, seconds(found.size), clock(found.after.end, 10000 / data.tick_ns), name(found.after), name(found.before));
  }
  var KEYS = {
    "+": function (m) { zoom(0.5, m); }, "=": function (m) { zoom(0.5, m); }, "-": function (m) { zoom(2, m); },
    n: nextHit, g: nextGap,
    a: function () { show(from - (to - from) / 4, to - (to - from) / 4); }, d: function () { show(from + (to - from) / 4, to + (to - from) / 4); },
    ArrowLeft: function () { step(-1); }, ArrowRight: function () { step(1); },
    ArrowUp: function () { stepRow(-1); }, ArrowDown: function () { stepRow(1); },
    PageUp: function () { scroll(-10); }, PageDown: function () { scroll(10); },
    Home: function () { show(0, data.ticks); }, Escape: function () { selected = null; tell(null); later(); }
  };
  function listen() {
    canvas.addEventListener("keydown", function (event) {
      var act = !event.ctrlKey && !event.metaKey && !event.altKey && KEYS[event.key];
      if (!act) return;
      event.preventDefault();
      act(selected ? selected.row.b[selected.at] : (from + to) / 2);
    });
    canvas.addEventListener("wheel", function (event) {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      var box = canvas.getBoundingClientRect();
      zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, from + (event.clientX - box.left - LABEL) / width() * (to - from));
    }, { passive: false });
    canvas.addEventListener("pointerdown", function (event) {
      drag = { x: event.clientX, y: event.clientY, from: from, to: to, top: top, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", function (event) {
      if (!drag) return tell(under(event) || selected);
      var by = (event.clientX - drag.x) / width() * (drag.to - drag.from);
      drag.moved = drag.moved || Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y) > 4;
      if (!drag.moved) return;
      show(drag.from - by, drag.to - by);
      top = drag.top;
      scroll(-Math.round((event.clientY - drag.y) / ROW));
    });
    canvas.addEventListener("pointerup", function (event) {
      var pick = drag && !drag.moved && under(event), box = canvas.getBoundingClientRect();
      var row = drag && !drag.moved && event.clientX - box.left < LABEL && rows[top + Math.floor((event.clientY - box.top - AXIS) / ROW)];
      drag = null;
      if (row && document.getElementById("rank-filter")) xpurun.showRanks(String(row.rank));
      if (pick) choose(pick.row, pick.at);
    });
    canvas.addEventListener("dblclick", function (event) {
      var pick = under(event);
      if (pick) show(pick.row.b[pick.at] - pick.row.d[pick.at] * 0.2, pick.row.b[pick.at] + pick.row.d[pick.at] * 1.2);
    });
    query.addEventListener("input", search);
    query.addEventListener("keydown", function (event) {
      if (event.key !== "Enter") return;
      event.preventDefault();
      nextHit();
    });
    next.addEventListener("click", nextHit);
    window.addEventListener("resize", later);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
    document.getElementById("tl-gap").addEventListener("click", nextGap);
    document.getElementById("tl-in").addEventListener("click", function () { zoom(0.5, (from + to) / 2); });
    document.getElementById("tl-out").addEventListener("click", function () { zoom(2, (from + to) / 2); });
    document.getElementById("tl-all").addEventListener("click", function () { show(0, data.ticks); });
  }
  function search() {
    var words = query.value.trim().toLowerCase(), calls = 0;
    hits = words ? data.names.map(function (name) { return name.toLowerCase().indexOf(words) >= 0; }) : null;
    // Of all calls, also of those that a block does not name.
    if (hits) data.calls.forEach(function (n, name) { calls += hits[name] ? n : 0; });
    next.disabled = !calls;
    found.textContent = hits ? xpurun.t("{0} calls", calls) : "";
    later();
  }
  xpurun.timeline = {
    view: function () { return { from: from, to: to, top: top, labels: LABEL - NAMES, selected: selected && data.names[selected.row.n[selected.at]], meeting: selected && selected.m }; },
    draw: draw
  };
  xpurun.timelineReady = xpurun.unpack("timeline-data").then(function (text) {
    data = JSON.parse(text);
    rows = data.rows;
    rows.forEach(function (row) {
      row.look = row.part === "open" ? "open" : row.kind;
      row.label = row.part === "open" ? xpurun.t("not finished") : row.part === "captured" ? xpurun.t("captured {0}", row.word) : row.word;
      row.b = sum(row.b);
      row.ends = ends(row);
    });
    section.classList.add("tl-ready");
    section.querySelector(".tl-moving").hidden = false;
    listen();
    show(0, data.ticks);
  }, function () { /* the still picture stays */ });
})();
