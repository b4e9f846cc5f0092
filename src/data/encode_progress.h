/* Progress of an encoding, printed, and signals that stop it. */
#ifndef PST_DATA_ENCODE_PROGRESS_H
#define PST_DATA_ENCODE_PROGRESS_H
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct {
    uint64_t total;           /* bytes of all files, as they are stored */
    _Atomic uint64_t at;      /* bytes before the place that is being encoded */
    uint64_t first, start_ns; /* `at` when it began, and when */
    _Atomic uint64_t printed_ns;
    int shows, terminal;
} pst_encode_progress;

/* first: bytes that were encoded before. */
void pst_encode_progress_open(pst_encode_progress *p, uint64_t total, uint64_t first, int shows);
/* Any thread. Prints percent, speed and the time left: on a terminal in one line that is written
 * again, else as a line every few seconds. */
void pst_encode_progress_set(pst_encode_progress *p, uint64_t at);
/* Clears the line of a terminal. */
void pst_encode_progress_close(pst_encode_progress *p);

/* SIGINT, SIGTERM and SIGHUP only set a flag meanwhile. */
typedef struct {
    struct sigaction before[3];
} pst_encode_signals;
void pst_encode_signals_open(pst_encode_signals *s);
/* Restores the handlers. Returns the signal that came; 0: none. *handled: 1: the program has a
 * handler for it. */
int pst_encode_signals_close(const pst_encode_signals *s, int *handled);
/* The signal that came; 0: none. */
int pst_encode_signals_came(void);
#endif
