// Linked into each program of the bundle. The start code of glibc 2.34 and later, which the build host links
// in, relies on the libc to run the program's constructors. An older libc runs only a function that the start
// code passes, so this file passes one; a newer libc then runs that function instead of doing it by itself.

#define HIDDEN __attribute__((visibility("hidden")))

extern "C" {

using Main = int(int, char**, char**);
using Constructor = void(int, char**, char**);

// From the linker, and from crti.o.
extern Constructor* __init_array_start[] HIDDEN;
extern Constructor* __init_array_end[] HIDDEN;
void _init() HIDDEN;

// By the linker's --wrap: the start code calls the first function, and the second one is libc's.
int __wrap___libc_start_main(Main* program, int argc, char** argv, Constructor* init, void (*fini)(),
                             void (*loader_fini)(), void* stack_end) HIDDEN;
int __real___libc_start_main(Main* program, int argc, char** argv, Constructor* init, void (*fini)(),
                             void (*loader_fini)(), void* stack_end);

// Read by libstdc++, which counts references without atomic operations if the value is not 0. glibc has the
// variable since 2.32, and a program that is not bound to glibc's own must not believe in a single thread.
extern HIDDEN char __libc_single_threaded;
char __libc_single_threaded = 0;

static void construct(int argc, char** argv, char** env) {
  _init();
  for (Constructor** function = __init_array_start; function != __init_array_end; ++function) {
    (*function)(argc, argv, env);
  }
}

int __wrap___libc_start_main(Main* program, int argc, char** argv, Constructor* /*init*/, void (*fini)(),
                             void (*loader_fini)(), void* stack_end) {
  // The loader runs the destructors (DT_FINI_ARRAY) in every version.
  return __real___libc_start_main(program, argc, argv, construct, fini, loader_fini, stack_end);
}

}  // extern "C"
