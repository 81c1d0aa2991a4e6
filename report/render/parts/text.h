// Plain text of merged stacks: stacks.txt, the text tree in the page, and anything a terminal shows.
#pragma once

#include "report/tree/stack_classes.h"
#include "report/tree/stack_forest.h"

#include <string>
#include <vector>

namespace xpurun::report {

// A tree as indented text, outermost first. Frames that the same ranks share stand below each other without
// indentation; it grows only where ranks part.
//   ranks 0-3
//     <module> (train.py:60)
//     main (train.py:52)
//     ├─ rank 2
//     │    load_batch (train.py:31)
//     └─ ranks 0-1,3
//          train_step (train.py:44)
// What is beyond `max_lines` is counted in a last line.
std::string tree_text(const FrameTree& tree, const FrameTable& frames, size_t max_lines = 4000);

// The classes, smallest first, then the trees of every role, with the frames of one layer. `title` is the
// first line.
std::string stacks_text(const std::string& title, const StackForest& forest,
                        const std::vector<StackClass>& classes, Layer layer = Layer::merged);

// "Rank 2", "Ranks 0-1,3", with how many of how many.
std::string class_title(const StackClass& c);

}  // namespace xpurun::report
