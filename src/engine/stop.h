/* What signals ask of the training run in this process: SIGINT, SIGTERM and SIGHUP to save and
 * stop, SIGUSR1 to save and go on, SIGQUIT to end at once. All ranks agree on it, with the reports
 * of a step (step.c) and within a validation (feed.c). */
#ifndef PST_ENGINE_STOP_H
#define PST_ENGINE_STOP_H
#include <signal.h>
#include <stdint.h>

/* What was asked, joined by |. */
enum { PST_STOP_INTERRUPT = 1, PST_STOP_HANGUP = 2, PST_STOP_TERMINATE = 4, PST_STOP_SAVE = 8 };

/* The program's own handlers. */
typedef struct {
    struct sigaction interrupt, terminate, hangup, save, quit;
    stack_t stack;
} pst_stop_before;

/* tells: says on stderr, once, what the first signal that asks for the end leads to. A second SIGINT or SIGTERM
 * ends the process at once, with 128 + its number; another SIGHUP does not, because a terminal that closes sends
 * several. Of these and SIGQUIT, what is ignored stays ignored (nohup; a shell's background). */
void pst_stop_open(pst_stop_before *before, int tells);
/* Another rank was asked, and this one knows it now: says so, where it has not spoken yet. */
void pst_stop_heard(void);
void pst_stop_close(const pst_stop_before *before);

/* What this process was asked so far. To save is asked once. */
uint64_t pst_stop_asked(void);
/* All steps are made, and in the last one some rank was asked to end the run by `signal` (0: none): nothing is left to
 * stop. What was asked so far no longer counts, nor does that signal from now on; others do. */
void pst_stop_complete(int signal);
/* All ranks know that one of them was asked to save: requests of this moment are the same one. */
void pst_stop_saves(void);
/* The signal that the run ends by, of all that was asked; 0: it goes on. */
int pst_stop_signal(uint64_t asked);
#endif
