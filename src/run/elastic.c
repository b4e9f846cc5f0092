/* See elastic.h: an epoch of an elastic run, between its start and its end. The epochs:
 * elastic_epochs.c; before ranks start: elastic_launch.c. */
#include "run/elastic_parts.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/plural.h"
#include "run/resume.h"
#include "run/saving.h"
#include "run/stop.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What goes with a state in addition to what a checkpoint has. */
typedef struct {
    pst_ckpt_info info;
    uint64_t checkpointed, resumed, skipped_before, skipped_in_row, spikes_in_row, rewinds,
        rewound_to;
    int save_requested; /* 1: a checkpoint was under way */
    pst_metrics_times times;
} note;
_Static_assert(sizeof(note) <= PST_ELASTIC_NOTE, "raise PST_ELASTIC_NOTE");
_Static_assert((int)PST_TRAINER_FOLDER == (int)PST_ELASTIC_FOLDER, "must be equal");

static double since(uint64_t ns) { return (double)(pst_monotonic_ns() - ns) * 1e-9; }

/* One rank of each host, because hosts have pages of their own. */
static int keeps_times(const pst_trainer *t) { return !t->group->world->local_rank; }

/* --- writing a state -------------------------------------------------------------------------- */

/* Of a side, on the rank that has most. */
static uint64_t state_bytes(const pst_trainer *t) {
    uint64_t most = 0;
    for (uint32_t r = 0; r < t->p->options.n_rank; r++) {
        const pst_memory_map *x = t->p->memory[r];
        if (x->twin_to - x->twin_from > most) most = x->twin_to - x->twin_from;
    }
    return most;
}

/* Side 0 of the state goes to the file that has not the state which this epoch begins with. */
pst_status pst_elastic_share(pst_trainer *t) {
    pst_elastic *e = t->elastic;
    if (!e) return PST_OK;
    pst_rank *r = t->group->local[0];
    const int *fd = e->page->state_fd[e->process];
    const int of_side[2] = {fd[e->first_file], fd[1 - e->first_file]};
    const uint64_t began = pst_monotonic_ns(), bytes = state_bytes(t);
    pst_status status = pst_rank_share_state(r, of_side, e->at);
    if (bytes && !e->epoch && keeps_times(t))
        e->page->times.ns_per_byte = (double)(pst_monotonic_ns() - began) / (double)bytes;
    /* later epochs find the files as they are, and have no time for it */
    if (status == PST_OK && !e->epoch) pst_rank_enlarge_pages(r);
    pst_elastic_moved(t, began);
    return pst_group_agree(t->group, status);
}

/* Describes the state in a file, when the first state is there. */
static pst_status describe(pst_trainer *t, uint32_t side, uint32_t file) {
    pst_elastic *e = t->elastic;
    const int fd = e->page->state_fd[e->process][file];
    char *text;
    size_t bytes;
    if (e->described[side]) return PST_OK;
    if (e->page->hosts.copies.data > 1)
        PST_TRY(pst_saving_whole_header(t, e->at[side], &text, &bytes));
    else PST_TRY(pst_saving_header(t, e->at[side], &text, &bytes));
    const ssize_t written = pwrite(fd, text, bytes, 0);
    free(text);
    if (written != (ssize_t)bytes)
        return pst_fail(PST_ENOMEM, "no memory to describe the state of --elastic");
    e->described[side] = 1;
    return PST_OK;
}

static note note_of(const pst_trainer *t) {
    note n = {.checkpointed = t->checkpointed,
              .resumed = t->resumed,
              .skipped_before = t->skipped_before,
              .skipped_in_row = t->skipped_in_row,
              .spikes_in_row = t->spikes_in_row,
              .rewinds = t->rewinds,
              .rewound_to = t->rewound_to,
              .times = t->times,
              .save_requested = t->save_requested || pst_saving_is_busy(t)};
    pst_saving_info(t, &n.info);
    return n;
}

/* SIGTERM was sent to this process alone, as before an eviction, and the others can go on, also
 * without those that leave at the same time. */
static int leaves(pst_elastic *e, uint64_t requests) {
    pst_elastic_members *m = &e->page->member[e->epoch];
    if (!(requests & PST_STOP_TERMINATE) || atomic_load(&e->page->is_stopping)) return 0;
    if (e->leaves || e->stays) return e->leaves;
    const uint32_t with_me = atomic_fetch_add(&m->leaving, 1) + 1;
    e->leaves = with_me < m->alive && e->page->ranks_of[m->alive - with_me] != 0;
    e->stays = !e->leaves;
    if (e->stays) atomic_fetch_sub(&m->leaving, 1);
    return e->leaves;
}

uint64_t pst_elastic_requests(const pst_trainer *t, uint64_t requests) {
    pst_elastic *e = t->elastic;
    if (!e) return requests;
    if (leaves(e, requests)) requests &= ~(uint64_t)PST_STOP_TERMINATE;
    if (atomic_load(&e->page->changes)) requests |= PST_STOP_CHANGE;
    return requests;
}

/* The first step of an epoch begins. Rank 0 keeps how long the set-up took, and reports a change.
 */
static void epoch_begins(pst_trainer *t) {
    pst_elastic *e = t->elastic;
    pst_elastic_members *m = &e->page->member[e->epoch];
    e->rest_ns = pst_monotonic_ns() - e->prepared_ns - e->moved_ns;
    if (keeps_times(t)) e->page->times.rest_ns = e->rest_ns;
    if (!e->epoch || t->group->world->rank) return;
    m->changed = (pst_elastic_changed){.from = e->page->member[e->source_epoch].n_rank,
                                       .step = t->step,
                                       .seconds = since(m->lost_ns),
                                       .predicted_s = e->predicted_s};
    const pst_metrics_resize r = {t->step, m->changed.from, m->n_rank, m->changed.seconds,
                                  m->changed.predicted_s};
    if (m->is_change) t->times.resize += m->changed.seconds;
    if (m->is_change && t->metrics) pst_metrics_resized(t->metrics, &r);
    atomic_store(&m->has_changed, 1);
    pst_elastic_wake(e->page);
}

/* The state is where STEP has written it; this says that it is complete, and what goes with it. The
 * next STEP writes the other side, where the state before is: no rank needs that any more, because
 * STEP begins when it has an answer from all ranks, which have then completed this state. */
pst_status pst_elastic_commit(pst_trainer *t) {
    pst_elastic *e = t->elastic;
    if (!e) return PST_OK;
    const uint64_t number = e->number + 1, began = pst_monotonic_ns();
    const uint32_t side = t->group->local[0]->side, file = side ? 1 - e->first_file : e->first_file;
    pst_elastic_state *state = &e->page->state[e->process][number % PST_ELASTIC_FILES];
    atomic_store(&state->number, 0);
    PST_TRY(describe(t, side, file));
    const note n = note_of(t);
    memcpy(state->note, &n, sizeof n);
    state->epoch = e->epoch;
    state->file = file;
    atomic_store(&state->number, number);
    e->number = number;
    e->committed_ns += pst_monotonic_ns() - began;
    e->commits++;
    if (leaves(e, pst_stop_requests())) _exit(PST_ELASTIC_LEFT);
    if (!t->trained) epoch_begins(t);
    return PST_OK;
}

/* All have what they need of each other when all have departed. The launcher announces the next
 * epoch then, which also ends the fence. */
pst_status pst_elastic_depart(pst_trainer *t) {
    pst_elastic *e = t->elastic;
    pst_elastic_members *m = &e->page->member[e->epoch];
    uint64_t never = 0;
    atomic_compare_exchange_strong(&m->departed_ns, &never, pst_monotonic_ns());
    atomic_fetch_add(&m->departed, 1);
    pst_elastic_wake(e->page);
    t->has_departed = e->has_departed = 1;
    if (t->group->world->ops->fence(t->group->world) != PST_OK) pst_error_clear();
    return PST_OK;
}

/* --- reading a state -------------------------------------------------------------------------- */

static void take_note(pst_trainer *t, const note *n) {
    t->checkpointed = n->checkpointed;
    t->resumed = n->resumed;
    t->skipped_before = n->skipped_before;
    t->skipped_in_row = n->skipped_in_row;
    t->spikes_in_row = n->spikes_in_row;
    t->rewinds = n->rewinds;
    t->rewound_to = n->rewound_to;
    t->times = n->times;
    t->save_requested = n->save_requested;
}

/* A local file of which only the header of a file of another host is there. */
static pst_status copy_header(pst_elastic *e, uint32_t process, uint32_t file, int *fd) {
    enum { LENGTH = 8 };
    const off_t sparse = (off_t)1 << 42; /* larger than the memory of any host */
    const uint32_t host = pst_elastic_host_of(e->page, process);
    pst_elastic_range range = {process, file, 0, LENGTH};
    uint64_t length = 0;
    PST_TRY(pst_elastic_fetch(&e->memory, host, &range, &length));
    range.bytes = LENGTH + length;
    uint8_t *text = length < UINT32_MAX ? malloc(range.bytes) : NULL;
    pst_status status =
        text ? PST_OK : pst_fail(PST_ENOMEM, "no memory to describe the state of another host");
    if (status == PST_OK) status = pst_elastic_fetch(&e->memory, host, &range, text);
    if (status == PST_OK && (*fd = memfd_create("penstock-header", MFD_CLOEXEC)) < 0)
        status = pst_fail(PST_ENOMEM, "cannot create a memory file: %m");
    if (status == PST_OK &&
        (ftruncate(*fd, sparse) || pwrite(*fd, text, range.bytes, 0) != (ssize_t)range.bytes))
        status = pst_fail(PST_ENOMEM, "cannot write a memory file: %m");
    free(text);
    return status;
}

/* Reads from the launcher of another host; 0: the file is on this host. */
static int fetch(void *arg, uint32_t file, uint64_t from, void *out, uint64_t bytes,
                 pst_status *status) {
    pst_elastic *e = arg;
    const uint32_t r = e->order[file];
    const uint32_t process = e->page->member[e->source_epoch].process[r];
    const pst_elastic_range range = {process, e->found.file[r], from, bytes};
    if (pst_elastic_is_here(e->page, process)) return 0;
    *status = pst_elastic_fetch(&e->memory, pst_elastic_host_of(e->page, process), &range, out);
    return 1;
}

/* The ranks whose state is left, those of this host first: what replicas have, too, is read here.
 * Returns their number. */
static uint32_t order_files(pst_elastic *e) {
    const pst_elastic_members *m = &e->page->member[e->source_epoch];
    uint32_t n = 0;
    for (int here = 1; here >= 0; here--)
        for (uint32_t r = 0; r < m->n_rank; r++)
            if (e->found.file[r] != UINT32_MAX &&
                pst_elastic_is_here(e->page, m->process[r]) == here)
                e->order[n++] = r;
    return n;
}

/* The first n files of e->order; fd: -1: not opened. */
static pst_status open_files(pst_elastic *e, uint32_t n, int fd[PST_ELASTIC_RANKS]) {
    const pst_elastic_members *m = &e->page->member[e->source_epoch];
    pst_status status = PST_OK;
    memset(fd, -1, PST_ELASTIC_RANKS * sizeof *fd);
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        const uint32_t process = m->process[e->order[i]], file = e->found.file[e->order[i]];
        if (pst_elastic_is_here(e->page, process)) fd[i] = dup(e->page->state_fd[process][file]);
        else status = copy_header(e, process, file, &fd[i]);
    }
    return status;
}

static void close_files(uint32_t n, const int *fd) {
    for (uint32_t i = 0; i < n; i++)
        if (fd[i] >= 0) close(fd[i]);
}

static pst_status open_found(pst_elastic *e, const pst_ckpt_info *info, const pst_graph *graph,
                             pst_ckpt **ckpt) {
    const uint32_t n = order_files(e);
    int fd[PST_ELASTIC_RANKS];
    pst_status status = open_files(e, n, fd);
    const pst_ckpt_memory memory = {.fd = fd, .n = n};
    if (status == PST_OK) status = pst_ckpt_open_memory(&memory, info, "", graph, ckpt);
    close_files(n, fd);
    if (status != PST_OK) return status;
    (*ckpt)->fetch = fetch;
    (*ckpt)->fetch_arg = e;
    return PST_OK;
}

void pst_elastic_state_info(const pst_elastic *e, pst_ckpt_info *info) {
    const uint32_t first = e->page->member[e->source_epoch].process[0],
                   k = e->source % PST_ELASTIC_FILES;
    note n;
    memcpy(&n, e->page->hosts.n ? e->found.note : e->page->state[first][k].note, sizeof n);
    *info = n.info;
}

static void state_files(const pst_elastic *e, int fd[PST_ELASTIC_RANKS]) {
    const pst_elastic_members *m = &e->page->member[e->source_epoch];
    const uint32_t k = e->source % PST_ELASTIC_FILES;
    for (uint32_t r = 0; r < m->n_rank; r++)
        fd[r] = e->page->state_fd[m->process[r]][e->page->state[m->process[r]][k].file];
}

static pst_status open_here(const pst_elastic *e, const pst_ckpt_info *info, const pst_graph *graph,
                            pst_ckpt **ckpt) {
    const pst_elastic_members *m = &e->page->member[e->source_epoch];
    int fd[PST_ELASTIC_RANKS];
    state_files(e, fd);
    const pst_ckpt_memory memory = {.fd = fd, .n = m->n_rank};
    return pst_ckpt_open_memory(&memory, info, "", graph, ckpt);
}

pst_status pst_elastic_write_state(pst_elastic *e, const char *folder, const char *config,
                                   const pst_graph *graph) {
    pst_ckpt_memory memory = {.n = e->page->member[e->source_epoch].n_rank};
    int fd[PST_ELASTIC_RANKS];
    pst_ckpt_info info;
    pst_elastic_state_info(e, &info);
    memory.fd = fd;
    if (!e->page->hosts.n) {
        state_files(e, fd);
        return pst_ckpt_write_memory(&memory, folder, &info, config, graph);
    }
    memory.n = order_files(e);
    memory.fetch = fetch;
    memory.fetch_arg = e;
    pst_status status = open_files(e, memory.n, fd);
    if (status == PST_OK) status = pst_ckpt_write_memory(&memory, folder, &info, config, graph);
    close_files(memory.n, fd);
    return status;
}

/* Opens the state in e->ckpt, unless it is open. */
static pst_status open_state(pst_elastic *e, const pst_graph *graph, note *n) {
    const pst_elastic_members *m = &e->page->member[e->source_epoch];
    const uint32_t k = e->source % PST_ELASTIC_FILES;
    const int several = e->page->hosts.n != 0;
    memcpy(n, several ? e->found.note : e->page->state[m->process[0]][k].note, sizeof *n);
    if (e->ckpt) return PST_OK;
    return several ? open_found(e, &n->info, graph, &e->ckpt)
                   : open_here(e, &n->info, graph, &e->ckpt);
}

/* Each epoch opens the files of the data again. */
static pst_status check_data(const pst_trainer *t, const pst_ckpt_info *info) {
    if (t->data->row->hash(t->data) == info->data_hash) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "the files of data.paths are not those that the run began with (their order, "
                    "names or sizes), so it cannot go on; restore them, and continue from the last "
                    "checkpoint: penstock train --resume %s",
                    t->folder);
}

static pst_status read_state(pst_trainer *t) {
    pst_elastic *e = t->elastic;
    note n;
    PST_TRY(open_state(e, t->p->whole, &n));
    pst_status status = check_data(t, &n.info);
    if (status == PST_OK) status = pst_resume_load(t, e->ckpt);
    pst_ckpt_close(e->ckpt);
    e->ckpt = NULL;
    if (status == PST_OK) take_note(t, &n);
    return status;
}

pst_status pst_elastic_read(pst_trainer *t) { return pst_group_agree(t->group, read_state(t)); }

/* --- during a run ----------------------------------------------------------------------------- */

int pst_elastic_is_wanted(const pst_config *c, const pst_train_options *o) {
    return o->elastic || c->elastic.min;
}

const pst_config *pst_elastic_config(const pst_elastic *e) { return e ? e->given : NULL; }

uint64_t pst_elastic_began_ns(const pst_elastic *e) {
    return e ? e->page->began_ns : pst_monotonic_ns();
}

int pst_elastic_goes_on(const pst_trainer *t, int *state) {
    if (state) *state = t->elastic && t->elastic->source;
    return t->elastic && t->elastic->epoch;
}

int pst_elastic_find_folder(const pst_trainer *t, char folder[PST_TRAINER_FOLDER]) {
    if (!t->elastic || !atomic_load(&t->elastic->page->has_folder)) return 0;
    memcpy(folder, t->elastic->page->folder, PST_TRAINER_FOLDER);
    return 1;
}

void pst_elastic_note_folder(const pst_trainer *t) {
    if (!t->elastic || atomic_load(&t->elastic->page->has_folder)) return;
    memcpy(t->elastic->page->folder, t->folder, PST_TRAINER_FOLDER);
    atomic_store(&t->elastic->page->has_folder, 1);
    pst_elastic_wake(t->elastic->page); /* which then takes requests */
}

/* No state was complete: the run has gone back to its last checkpoint, or to its beginning. */
void pst_elastic_went_back(pst_trainer *t) {
    pst_elastic *e = t->elastic;
    note last;
    if (!e || !e->epoch || e->source || !e->found.has_last) return;
    memcpy(&last, e->found.last_note, sizeof last);
    e->repeated = last.info.step > t->step ? last.info.step - t->step : 0;
    if (!t->group->leader || t->options->quiet) return;
    const unsigned long long n = e->repeated;
    printf("the newest state went with the host: back to %s of step %llu; %llu step%s repeated\n",
           *t->resume ? "the checkpoint" : "the beginning, the weights",
           (unsigned long long)t->step, n, n == 1 ? " is" : "s are");
    fflush(stdout);
}

void pst_elastic_moved(const pst_trainer *t, uint64_t began_ns) {
    if (t->elastic) t->elastic->moved_ns += pst_monotonic_ns() - began_ns;
}

/* The last step, as this layout is predicted to change it. */
static double step_ns(const pst_elastic_times *k, const pst_prepared *p) {
    const double predicted = (double)p->timing->step_ns;
    if (k->step_ns <= 0 || !k->step_predicted_ns) return predicted;
    return k->step_ns * predicted / (double)k->step_predicted_ns;
}

/* 1: the rank of the file that was opened, or another one with the same state, is on this host. */
static int is_on(const pst_elastic *e, uint32_t file, uint32_t host) {
    const pst_elastic_copies copies = e->page->hosts.copies;
    const pst_elastic_members *m = &e->page->member[e->source_epoch];
    const uint32_t r = e->order[file], lanes = copies.data * copies.tensor;
    for (uint32_t k = 0; k < copies.data; k++) {
        const uint32_t other = r / lanes * lanes + r % copies.tensor + k * copies.tensor;
        if (other < m->n_rank && e->found.file[other] != UINT32_MAX &&
            pst_elastic_host_of(e->page, m->process[other]) == host)
            return 1;
    }
    return pst_elastic_host_of(e->page, m->process[r]) == host;
}

/* The most bytes of the state that the ranks of a host read from others. */
static uint64_t moved_bytes(const pst_elastic *e, const pst_prepared *p) {
    const pst_elastic_members *m = &e->page->member[e->epoch];
    uint64_t of_host[PST_ELASTIC_HOSTS] = {0}, most = 0;
    uint8_t is_far[PST_ELASTIC_RANKS];
    for (uint32_t r = 0; r < m->n_rank; r++) {
        const uint32_t host = pst_elastic_host_of(e->page, m->process[r]);
        const uint64_t *const range[] = {p->memory[r]->step_from, p->memory[r]->step_to};
        for (uint32_t f = 0; f < e->ckpt->n_file; f++) is_far[f] = !is_on(e, f, host);
        of_host[host] += pst_ckpt_far_bytes(
            e->ckpt, is_far, p->graphs[pst_grid_at(p->grid, r).tensor], p->optim, range);
        if (of_host[host] > most) most = of_host[host];
    }
    return most;
}

/* How long the parts of the state take that change their host. 0: they cannot be opened, of which
 * the message comes later, or the link was not measured. */
static double moves_ns(const pst_trainer *t) {
    pst_elastic *e = t->elastic;
    const uint64_t rate = atomic_load(&e->page->hosts.bytes_per_s);
    note n;
    e->moved_bytes = 0;
    if (!e->page->hosts.n || !e->source || !rate) return 0;
    if (open_state(e, t->p->whole, &n) != PST_OK) return 0;
    e->moved_bytes = moved_bytes(e, t->p);
    return (double)e->moved_bytes * 1e9 / (double)rate;
}

/* What has passed already; the rest of the set-up, which takes as long as in the last epoch; the
 * memory of the state, of which one side is read; what comes from other hosts; one step, if it is
 * repeated. */
static double predict_s(const pst_trainer *t) {
    const pst_elastic *e = t->elastic;
    const pst_elastic_times *k = &e->page->times;
    const pst_elastic_members *m = &e->page->member[e->epoch];
    double ns = (double)k->rest_ns + k->ns_per_byte * (double)state_bytes(t) + moves_ns(t);
    if (!m->is_change) ns += step_ns(k, t->p);
    return since(m->lost_ns) + 1e-9 * ns;
}

void pst_elastic_say(const pst_trainer *t) {
    pst_elastic *e = t->elastic;
    if (!e) return;
    e->prepared_ns = pst_monotonic_ns();
    e->moved_ns = 0;
    e->steps = 0;
    if (!e->epoch) return;
    const pst_elastic_members *m = &e->page->member[e->epoch];
    e->reports = !m->is_change;
    if (t->world->rank) return; /* rank 0 predicts and reports */
    e->predicted_s = predict_s(t);
    if (t->options->quiet) return;
    printf("going on with %u rank%s; %s will take %.2f s\n", m->n_rank, pst_plural(m->n_rank),
           m->is_change ? "the change" : "recovery", e->predicted_s);
    fflush(stdout);
}

/* The hosts that were lost since the last epoch in which a step was completed. */
static uint32_t lost_hosts(const pst_elastic *e, uint32_t trained,
                           const char *name[PST_ELASTIC_HOSTS]) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->page->hosts.n; i++) {
        const pst_elastic_host *h = &e->page->hosts.host[i];
        if (atomic_load(&h->lost_in) > trained) name[n++] = h->name;
    }
    return n;
}

void pst_elastic_report(pst_trainer *t) {
    pst_elastic *e = t->elastic;
    if (!e) return;
    const double wall = (double)t->own_report[0].wall_ns;
    /* the first step of an epoch is slower than the others */
    pst_elastic_times *k = &e->page->times;
    const uint32_t before = e->trained_epoch;
    if (keeps_times(t)) {
        k->step_ns = e->steps++ > 1 ? k->step_ns + (wall - k->step_ns) / 8 : wall;
        k->step_predicted_ns = t->p->timing->step_ns;
    }
    e->trained_epoch = e->epoch;
    if (!e->reports) return;
    e->reports = 0;
    if (!t->metrics) return;
    const pst_elastic_members *m = &e->page->member[e->epoch];
    const char *host[PST_ELASTIC_HOSTS];
    const pst_metrics_recovery r = {.step = t->step - 1,
                                    .host = host,
                                    .n_host = lost_hosts(e, before, host),
                                    .repeated = e->repeated,
                                    .moved_bytes = e->moved_bytes,
                                    .lost = m->lost,
                                    .n_lost = m->n_lost,
                                    .ranks = m->n_rank,
                                    .seconds = since(m->lost_ns),
                                    .predicted_s = e->predicted_s,
                                    .prepared_s = (double)(e->prepared_ns - m->lost_ns) * 1e-9,
                                    .set_up_s = (double)e->rest_ns * 1e-9,
                                    .state_s = (double)e->moved_ns * 1e-9,
                                    .step_s = wall * 1e-9};
    t->times.recovery += r.seconds - r.step_s;
    pst_metrics_recovered(t->metrics, &r);
}

pst_status pst_elastic_finish(pst_trainer *t) {
    uint32_t runs = PST_ELASTIC_RUNS;
    const pst_elastic *e = t->elastic;
    if (!e) return PST_OK;
    if (e->commits)
        pst_log(PST_LOG_DEBUG, "elastic: each step's state was noted in %.3f ms",
                (double)e->committed_ns * 1e-6 / (double)e->commits);
    PST_TRY(t->group->world->ops->fence(t->group->world));
    atomic_compare_exchange_strong(&e->page->end, &runs, PST_ELASTIC_DONE);
    return PST_OK;
}
