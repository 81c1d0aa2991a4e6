// The text that scripts make, in the language of the page: a data block has the translations of what stands in
// xpurun.t("..."). Comes before the other scripts.
(function () {
  "use strict";
  var xpurun = window.xpurun = window.xpurun || {};
  var block = document.getElementById("page-words"), words = block ? JSON.parse(block.textContent) : {};
  // t("{0} of {1}", a, b)
  xpurun.t = function (english) {
    var args = arguments;
    return (words[english] || english).replace(/\{(\d)\}/g, function (all, n) { return args[+n + 1]; });
  };
})();
