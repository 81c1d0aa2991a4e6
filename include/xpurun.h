/* What a program in C or C++ tells xpurun, the program that runs it: where its training steps end, and the
 * work of a pipeline's stage. The counterpart of the Python module `xpurun`.
 *
 * The functions are in xpurun's preload library, which is in the process if the program runs under xpurun.
 * There is nothing to link, and the program works without xpurun. Two ways:
 *
 * 1. The functions are declared weak, so that their addresses are null without xpurun, and the macros below
 * ask. The program must be compiled as position-independent code (-fPIE or -fPIC, the default of most
 *    distributions); in other programs the addresses are always null.
 *
 *      #include <xpurun.h>
 *      for (int i = 0; i < steps; ++i) {
 *        train();
 *        XPURUN_STEP();
 *      }
 *
 * 2. By dlsym(3), without this header and in every program with a dynamic loader:
 *
 *      void (*step)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "xpurun_step");
 *      ...
 *      if (step != NULL) step();
 *
 * The functions may be called from any thread, not from signal handlers; they take less than a microsecond,
 * keep errno, and do nothing in processes that are no ranks and while timing is off. The first call of a
 * process asks xpurun for memory and may take some milliseconds.
 */
#ifndef XPURUN_H
#define XPURUN_H

#ifdef __cplusplus
extern "C" {
#endif

/* A training step of this rank ended here. `xpurun analyze` prefers these marks to all other signs of a step.
 */
__attribute__((weak)) void xpurun_step(void);

/* The forward or backward pass of a micro-batch (from 0) on this rank's stage of a pipeline begins, or ends.
 * The same thread makes both calls. `chunk`: number of the model chunk, from 0; negative: there is one only.
 */
__attribute__((weak)) void xpurun_forward_begin(int micro_batch, int chunk);
__attribute__((weak)) void xpurun_forward_end(void);
__attribute__((weak)) void xpurun_backward_begin(int micro_batch, int chunk);
__attribute__((weak)) void xpurun_backward_end(void);

#define XPURUN_STEP() (xpurun_step ? xpurun_step() : (void)0)
#define XPURUN_FORWARD_BEGIN(micro_batch, chunk) \
  (xpurun_forward_begin ? xpurun_forward_begin(micro_batch, chunk) : (void)0)
#define XPURUN_FORWARD_END() (xpurun_forward_end ? xpurun_forward_end() : (void)0)
#define XPURUN_BACKWARD_BEGIN(micro_batch, chunk) \
  (xpurun_backward_begin ? xpurun_backward_begin(micro_batch, chunk) : (void)0)
#define XPURUN_BACKWARD_END() (xpurun_backward_end ? xpurun_backward_end() : (void)0)

#ifdef __cplusplus
}
#endif

#endif
