// xpurun: see commands/dispatch.h.
#include "commands/dispatch.h"

int main(int argc, char** argv) {
  return xpurun::launcher::dispatch({argv + (argc > 0 ? 1 : 0), argv + argc});
}
