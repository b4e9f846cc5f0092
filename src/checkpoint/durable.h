/* Files that are on the disk when a call says so: create, write, sync, rename. The one place where
 * a test can make the disk full. Every failure is ENOMEM with the path and errno's text. Any
 * thread. */
#ifndef PST_CHECKPOINT_DURABLE_H
#define PST_CHECKPOINT_DURABLE_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Creates or empties a file; a link of that name is replaced by one. */
pst_status pst_durable_create(const char *path, int *fd);
pst_status pst_durable_write(int fd, const char *path, const void *data, uint64_t bytes);
/* For a file that several threads write in pieces: its room is set aside where the file system can,
 * so that a disk without it is found at once; then the pieces of `part` (which is used up) go to
 * `at`, and the file is cut to `bytes`. */
pst_status pst_durable_reserve(int fd, const char *path, uint64_t bytes);
pst_status pst_durable_write_at(int fd, const char *path, struct iovec *part, int n, uint64_t at);
pst_status pst_durable_cut(int fd, const char *path, uint64_t bytes);
/* The same file past the page cache; -1 where that is not to be had. *align: what addresses,
 * lengths and positions must be multiples of. */
int pst_durable_direct(const char *path, uint32_t *align);
pst_status pst_durable_sync(int fd, const char *path);
/* fsync and close; the descriptor is closed in every case. */
pst_status pst_durable_close(int fd, const char *path);
/* A whole small file; nothing is left of it on failure. */
pst_status pst_durable_file(const char *path, const void *data, size_t bytes);
pst_status pst_durable_mkdir(const char *path); /* fine when it is there already */
/* `to` is replaced in one step, a folder with content or a link to one too (where the file system
 * can exchange names: `from` then names what was `to`, for the caller to remove). */
pst_status pst_durable_rename(const char *from, const char *to);
pst_status pst_durable_sync_folder(const char *path);
/* Takes a folder for this process until *fd is closed or the process ends; waits a moment for one
 * that is just ending. EINPUT: another process has it. *fd is -1 where the file system knows no
 * locks. */
pst_status pst_durable_lock(const char *path, int *fd);
/* Removes a file or a folder with everything in it; never fails loudly. */
void pst_durable_remove(const char *path);

/* For tests: the n-th create, write, sync, mkdir or rename of this process from now on fails with
 * ENOSPC; 0: never. full: so do all that follow, as on a disk that stays full. */
void pst_durable_fail_after(uint64_t n);
void pst_durable_full_after(uint64_t n);
/* For tests: a disk that is slow. Every pst_durable_write_at past the page cache, and every
 * pst_durable_sync_folder, takes so much longer. */
void pst_durable_slow(uint64_t ns);
#endif
