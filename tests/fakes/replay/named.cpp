// A library with one of the names that the loader looks for; the functions are in fake_replay.cpp. The linker
// keeps a library only if something of that library is used.
extern "C" int cuInit(unsigned);

int (*const volatile fake_replay_is_used)(unsigned) = cuInit;
