/* Signals as requests to the training run in this process: SIGINT, SIGTERM and SIGHUP: save and
 * stop; SIGUSR1: save and continue; SIGQUIT: end at once. Ranks exchange requests in the reports of
 * each step (step.c) and during a validation (feed.c). */
#ifndef PST_RUN_STOP_H
#define PST_RUN_STOP_H
#include <signal.h>
#include <stdint.h>

/* Requests; combined by |. */
enum { PST_STOP_INTERRUPT = 1, PST_STOP_HANGUP = 2, PST_STOP_TERMINATE = 4, PST_STOP_SAVE = 8 };
/* Not signals: rank 0 finds that train.time_limit is near; an elastic run is to go on with other
 * ranks after this step. */
enum { PST_STOP_TIME = 16, PST_STOP_CHANGE = 32 };

/* The signal handlers of the program, to be restored. */
typedef struct {
    struct sigaction interrupt, terminate, hangup, save, quit;
    stack_t stack;
} pst_stop_before;

/* Installs the handlers. announce: the first signal that stops the run writes one line on stderr. A
 * second SIGINT or SIGTERM ends the process at once, with status 128 + its number; another SIGHUP
 * does not, because a terminal that closes sends several. A signal that is ignored stays ignored
 * (SIGHUP under nohup, SIGINT and SIGQUIT in a shell's background). */
void pst_stop_open(pst_stop_before *before, int announce);
/* Restores the handlers. */
void pst_stop_close(const pst_stop_before *before);
/* Writes the same line when another rank has received the signal; only once per process. */
void pst_stop_announce(void);

/* The pending requests that this process has received. */
uint64_t pst_stop_requests(void);
/* To be called when all steps are done: requests to stop received so far are ignored, and so are
 * later ones by `signal`, with which some rank was asked to stop in the last step (0: none). */
void pst_stop_complete(int signal);
/* To be called when all ranks know of a request to save: clears it. Requests at almost the same
 * time count as one. */
void pst_stop_save_taken(void);
/* The signal that stops the run, from the requests of all ranks; 0: the run continues. */
int pst_stop_signal(uint64_t requests);
#endif
