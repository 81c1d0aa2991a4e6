// Prints the boxes that the page draws, for the JSON that `report_tool forest` prints.
// usage: node forest.js stackmodel.js < forest.json
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const window = {};
const scripts = ["words.js", "stackmodel.js"].map((name) => fs.readFileSync(path.join(path.dirname(process.argv[2]), name), "utf8"));
vm.runInNewContext(scripts.join("\n"), { window, document: { getElementById: () => null } });
const forest = JSON.parse(fs.readFileSync(0, "utf8"));
const xpurun = window.xpurun;
const out = {};
for (const layer of Object.keys(forest.layers)) {
  const view = { layer, ranks: "", group: "", compare: "", moment: 0, width: "ranks", thread: "", process: "", state: "" };
  const built = new xpurun.Model(forest.data).build(view);
  out[layer] = built.panels.map((panel) => {
    const boxes = [];
    (function below(node, x, width) {
      const widths = xpurun.childWidths(node, width);
      node.kids.forEach((kid, i) => {
        boxes.push({
          depth: kid.depth, label: kid.label, ranks: kid.ranks, n: kid.n[0], threads: kid.threads[0],
          diverges: Boolean(kid.diverges), x, width: widths[i],
        });
        below(kid, x, widths[i]);
        x += widths[i];
      });
    })(panel.root, 0, 1);
    return boxes;
  });
}
process.stdout.write(JSON.stringify(out));
