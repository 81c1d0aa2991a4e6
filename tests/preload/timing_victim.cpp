// Loads timing_body as frameworks load their libraries: timing_victim BODY.so global|local SCENE...
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: timing_victim BODY global|local [SCENE...]\n");
    return 98;
  }
  const int scope = strcmp(argv[2], "local") == 0 ? RTLD_LOCAL : RTLD_GLOBAL;
  void* body = dlopen(argv[1], RTLD_LAZY | scope);
  if (body == nullptr) {
    fprintf(stderr, "timing_victim: %s\n", dlerror());
    return 97;
  }
  const auto play = reinterpret_cast<int (*)(int, char**)>(dlsym(body, "play"));
  return play(argc - 3, argv + 3);
}
