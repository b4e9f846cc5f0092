/* Files that are on the disk when a call returns: create, write, sync, rename. The only place where
 * a test can simulate a full disk. Every failure is ENOMEM, with the path and the text of errno in
 * the message. Functions may be called from any thread. */
#ifndef PST_CHECKPOINT_DURABLE_H
#define PST_CHECKPOINT_DURABLE_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Creates or empties a file; replaces a link of that name. */
pst_status pst_durable_create(const char *path, int *fd);
pst_status pst_durable_write(int fd, const char *path, const void *data, uint64_t bytes);
/* For a file of which several threads write parts. reserve: reserves the space of the file if the
 * file system can, so that a full disk is noticed at once. write_at: writes the n buffers of `part`
 * at file position `at`, and modifies `part`. cut: truncates the file to `bytes`. */
pst_status pst_durable_reserve(int fd, const char *path, uint64_t bytes);
pst_status pst_durable_write_at(int fd, const char *path, struct iovec *part, int n, uint64_t at);
pst_status pst_durable_cut(int fd, const char *path, uint64_t bytes);
/* Opens an existing file for direct I/O and returns the descriptor; -1 if the file system cannot.
 * Addresses, lengths and positions must be multiples of *align. */
int pst_durable_direct(const char *path, uint32_t *align);
pst_status pst_durable_sync(int fd, const char *path);
/* fsync and close; the descriptor is closed in every case. */
pst_status pst_durable_close(int fd, const char *path);
/* Writes a whole small file; on failure the file is removed. */
pst_status pst_durable_file(const char *path, const void *data, size_t bytes);
pst_status pst_durable_mkdir(const char *path); /* OK if it exists */
/* Renames `from` to `to`, replacing `to` atomically. `to` may be a folder with content or a link to
 * one if the file system can exchange names: `from` is then the old `to`, which the caller removes.
 */
pst_status pst_durable_rename(const char *from, const char *to);
pst_status pst_durable_sync_folder(const char *path);
/* Locks a folder for this process until *fd is closed or the process ends; waits a moment for a
 * process that is just ending. EINPUT: another process has the lock. *fd is -1 if the file system
 * has no locks. */
pst_status pst_durable_lock(const char *path, int *fd);
/* Removes a file, or a folder with everything in it; reports no failure. */
void pst_durable_remove(const char *path);

/* For tests: the n-th create, write, sync, mkdir or rename of this process from now on fails with
 * ENOSPC; n = 0: no call fails. full: all later calls fail too, as on a full disk. */
void pst_durable_fail_after(uint64_t n);
void pst_durable_full_after(uint64_t n);
/* For tests: a slow disk. Every pst_durable_write_at with direct I/O and every
 * pst_durable_sync_folder takes `ns` longer. */
void pst_durable_slow(uint64_t ns);
#endif
