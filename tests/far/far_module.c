/* A back end as a module whose device is a processor that behaves like an accelerator: its memory
 * lies at addresses where the host finds nothing, launches and copies are queued to threads of its
 * own and end later. Kernels and arithmetic are the CPU's, so that a run on it has the CPU's bits;
 * precision fp8 is there (far_f8.h). For tests of the engine; from the environment:
 * FAR_MEMORY=BYTES (there are no more), FAR_FAIL=NODE:PASS:N (the N-th launch of that kernel
 * fails), FAR_VERSION=N, FAR_MODEL=NAME, FAR_BATCH=SAMPLES (kernels are told the number of the step
 * that has their sample), FAR_NEAR=1 (memory lies at its addresses, and is called CUDA's),
 * FAR_CAPTURE=N (the N-th capture fails; 0: it captures nothing), FAR_GAPS=1 (far_gaps.h),
 * FAR_SUMS=1 (layer norms' B leaves sums for W, by the reference's kernels). */
#include "far/far_gaps.h"
#include "far/far_parts.h"
#include "base/arena.h"
#include "kernels/cpu/cpu.h"
#include "kernels/module_host.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t away_by = UINT64_C(1) << 62; /* from where memory really lies: no address at all */
enum { MAX_ROWS = 480, PAUSE_EVERY = 13, PAUSE_US = 50 };

/* --- queues ----------------------------------------------------------------------------------- */

/* Events begin and end with jobs of their own; whatever fails, everything behind it does. */
static pst_status run_begin(far *d, job *j) {
    uint64_t now = pst_clock_now(d->m.base.clock);
    pthread_mutex_lock(&d->lock);
    d->event[j->event % FAR_EVENTS].start_ns = now;
    pthread_mutex_unlock(&d->lock);
    return PST_OK;
}

static void end_event(far *d, uint64_t event) {
    d->event[event % FAR_EVENTS].end_ns = pst_clock_now(d->m.base.clock);
    d->event[event % FAR_EVENTS].state = d->failed == PST_OK ? 1 : 2;
}

static void *serve(void *arg) {
    queue *q = arg;
    far *d = q->device;
    /* as on the CPU's own threads, else products share out their sums */
    pst_gemm_start_thread(NULL);
    pthread_mutex_lock(&d->lock);
    for (uint32_t served = 1;; served++) {
        while (!q->first && !d->closing) pthread_cond_wait(&q->filled, &d->lock);
        if (!q->first) break;
        job *j = q->first;
        pst_status failed = d->failed;
        pthread_mutex_unlock(&d->lock);
        if (served % PAUSE_EVERY == 0) usleep(PAUSE_US);
        pst_status status = failed == PST_OK && j->run ? j->run(d, j) : PST_OK;
        pthread_mutex_lock(&d->lock);
        if (status != PST_OK && d->failed == PST_OK) {
            d->failed = status;
            snprintf(d->why, sizeof d->why, "%s", pst_error());
        }
        int ends = j->event != UINT64_MAX && j->run != run_begin;
        if (ends) end_event(d, j->event);
        if (!(q->first = j->next)) q->last = &q->first;
        if (ends) pthread_cond_broadcast(&d->moved);
        free(j->param);
        free(j->x);
        free(j->n);
        free(j);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static pst_status run_other(far *d, job *j) {
    (void)d;
    return j->other(j->other_arg);
}

static void put_other(pst_device *device, pst_status (*run)(void *arg), void *arg) {
    job *j = far_job(run_other);
    j->other = run;
    j->other_arg = arg;
    far_put((far *)device, PST_Q_COMPUTE, j);
}

static uint64_t new_event(far *d) {
    pthread_mutex_lock(&d->lock);
    uint64_t event = d->next_event++;
    d->event[event % FAR_EVENTS].state = 0;
    d->event[event % FAR_EVENTS].start_ns = 0;
    pthread_mutex_unlock(&d->lock);
    return event;
}

static pst_status await(far *d, uint64_t event) {
    pthread_mutex_lock(&d->lock);
    while (!d->event[event % FAR_EVENTS].state) pthread_cond_wait(&d->moved, &d->lock);
    int failed = d->event[event % FAR_EVENTS].state == 2;
    pthread_mutex_unlock(&d->lock);
    return failed ? pst_fail(d->failed, "%s", d->why) : PST_OK;
}

/* --- the device ------------------------------------------------------------------------------- */

static pst_status open_device(const pst_device_config *config, pst_device **out);

static _Atomic int most_waiting;      /* launches that had not ended when another came */
static _Atomic int n_launch, n_asked; /* launches; those with an event */
static _Atomic int n_beside;          /* in queue SIDE */

static void begin_event(far *d) {
    uint64_t event = d->ahead = new_event(d);
    pthread_mutex_lock(&d->lock);
    int waiting = 0;
    for (uint64_t e = event; e-- > 0 && e + FAR_EVENTS / 8 > event;)
        waiting += !d->event[e % FAR_EVENTS].state;
    if (waiting > most_waiting) most_waiting = waiting;
    pthread_mutex_unlock(&d->lock);
    job *begin = far_job(run_begin);
    begin->event = event;
    far_put(d, PST_Q_COMPUTE, begin);
    d->begun = 1;
}

static pst_status launch(pst_device *device, pst_launch_fn fn, const void *call, uint64_t after_ns,
                         uint64_t ns, uint64_t *event) {
    far *d = (far *)device;
    (void)after_ns;
    (void)ns;
    if (d->capturing)
        return event ? pst_fail(PST_EINTERNAL, "far: an event in a capture") : fn(device, call);
    n_launch++;
    if (!d->begun) begin_event(d);
    pst_status status = fn(device, call);
    if (!event) return status;
    job *end = far_job(NULL);
    end->event = *event = d->ahead;
    far_put(d, PST_Q_COMPUTE, end);
    d->begun = 0;
    n_asked++;
    return status;
}

/* What fn queues to COMPUTE goes to SIDE. */
static pst_status launch_beside(pst_device *device, pst_launch_fn fn, const void *call,
                                uint64_t *event) {
    far *d = (far *)device;
    if (d->capturing) return pst_fail(PST_EINTERNAL, "far: a launch beside a capture");
    job *begin = far_job(run_begin), *end = far_job(NULL);
    begin->event = end->event = *event = new_event(d);
    far_put(d, PST_Q_SIDE, begin);
    d->now = PST_Q_SIDE;
    pst_status status = fn(device, call);
    d->now = PST_Q_COMPUTE;
    far_put(d, PST_Q_SIDE, end);
    n_beside++;
    return status;
}

static pst_status test(pst_device *device, uint64_t event, uint64_t *start_ns, uint64_t *end_ns) {
    far *d = (far *)device;
    pthread_mutex_lock(&d->lock);
    int known = event < d->next_event && event + FAR_EVENTS >= d->next_event,
        state = d->event[event % FAR_EVENTS].state;
    *start_ns = d->event[event % FAR_EVENTS].start_ns;
    *end_ns = d->event[event % FAR_EVENTS].end_ns;
    pthread_mutex_unlock(&d->lock);
    if (!known)
        return pst_fail(PST_EINTERNAL, "far: event %llu is not known", (unsigned long long)event);
    if (state == 2) return pst_fail(d->failed, "%s", d->why);
    return state ? PST_OK : PST_BUSY;
}

/* --- captures --------------------------------------------------------------------------------- */

typedef struct captured {
    struct captured *next;
    job *first;
} captured;

static _Atomic int n_capture, n_replay;
static pst_status run_kernel(far *d, job *j);

static void drop_jobs(job *j) {
    for (job *next; j; j = next) {
        next = j->next;
        free(j);
    }
}

static void drop_captured(far *d) {
    for (captured *c = d->captured, *next; c; c = next) {
        next = c->next;
        drop_jobs(c->first);
        free(c);
    }
}

static pst_status capture_begin(pst_device *device) {
    far *d = (far *)device;
    if (d->capturing) return pst_fail(PST_EINTERNAL, "far: a capture in a capture");
    d->capturing = 1;
    d->noted = NULL;
    d->last_noted = &d->noted;
    return PST_OK;
}

/* What differs from launch to launch, but for the sample, is none of what is captured: kernels that
 * look at it meet nonsense. */
static pst_status keep_noted(far *d, captured *c) {
    for (job *j = d->noted; j; j = j->next) {
        if (j->run != run_kernel)
            return pst_fail(PST_EINTERNAL, "far: more than kernels in a capture");
        j->call.sample = UINT64_MAX;
        j->call.step = UINT64_MAX;
        j->call.loss_scale = NAN;
    }
    *c = (captured){d->captured, d->noted};
    d->captured = c;
    return PST_OK;
}

static pst_status capture_end(pst_device *device, void **launches) {
    far *d = (far *)device;
    const char *fails = getenv("FAR_CAPTURE");
    captured *c = NULL;
    pst_status status = PST_OK;
    if (!d->capturing) return pst_fail(PST_EINTERNAL, "far: no capture is under way");
    d->capturing = 0;
    if (launches && fails && n_capture + 1 == atoi(fails))
        status = pst_fail(PST_EINTERNAL, "far: no captures today");
    if (launches && status == PST_OK && !(c = malloc(sizeof *c))) abort();
    if (c) status = keep_noted(d, c);
    if (!c || status != PST_OK) {
        drop_jobs(d->noted);
        free(c);
        return status;
    }
    *launches = c;
    n_capture++;
    return PST_OK;
}

static pst_status replay(pst_device *device, const void *call) {
    const pst_captured *again = call;
    const captured *c = again->launches;
    for (const job *of = c->first; of; of = of->next) {
        job *j = far_job(run_kernel);
        uint64_t no_event = j->event;
        *j = *of;
        j->next = NULL;
        j->event = no_event;
        j->call.arg = j->arg;
        j->call.sample = again->sample;
        far_put((far *)device, PST_Q_COMPUTE, j);
    }
    n_replay++;
    return PST_OK;
}

static uint64_t next_ns(pst_device *device) {
    (void)device;
    return PST_NEVER;
}

static void close_device(pst_device *device) {
    far *d = (far *)device;
    if (!d) return;
    pthread_mutex_lock(&d->lock);
    d->closing = 1;
    for (int q = 0; q < PST_Q_COUNT; q++) pthread_cond_signal(&d->queue[q].filled);
    pthread_mutex_unlock(&d->lock);
    for (int q = 0; q < PST_Q_COUNT; q++) pthread_join(d->queue[q].thread, NULL);
    for (int q = 0; q < PST_Q_COUNT; q++) pthread_cond_destroy(&d->queue[q].filled);
    d->cpu->ops->close(d->cpu);
    drop_captured(d);
    for (uint32_t i = 0; i < d->n_staging; i++) free(d->staging[i]);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->moved);
    far_choices_close(&d->choices);
    free(d->m.memory);
    free(d);
}

static pst_status memory(pst_device *device, uint64_t bytes, void **base) {
    far *d = (far *)device;
    const char *limit = getenv("FAR_MEMORY");
    uint64_t most = limit ? strtoull(limit, NULL, 10) : UINT64_MAX;
    void *real_memory;
    if (bytes > most)
        return pst_fail(PST_ENOMEM, "device far: %llu bytes are needed, %llu are free",
                        (unsigned long long)bytes, (unsigned long long)most);
    if (posix_memalign(&real_memory, 4096, bytes))
        return pst_fail(PST_ENOMEM, "device far: no memory");
    d->m.memory = real_memory;
    d->m.bytes = bytes;
    d->m.away = away_by;
    *base = (void *)(uintptr_t)((uint64_t)(uintptr_t)real_memory + away_by);
    return PST_OK;
}

static pst_status staging(pst_device *device, uint64_t bytes, void **base) {
    far *d = (far *)device;
    if (d->n_staging == sizeof d->staging / sizeof *d->staging || posix_memalign(base, 4096, bytes))
        return pst_fail(PST_ENOMEM, "device far: no memory of the host");
    d->staging[d->n_staging++] = *base;
    return PST_OK;
}

static pst_status run_copy(far *d, job *j) {
    memcpy(far_real(d, j->to), far_real(d, j->from), j->bytes);
    return PST_OK;
}

static pst_status copy(pst_device *device, pst_queue where, void *to, const void *from,
                       uint64_t bytes, uint64_t *event) {
    far *d = (far *)device;
    job *j = far_job(run_copy);
    uint64_t own = j->event = new_event(d);
    j->to = to;
    j->from = from;
    j->bytes = bytes;
    far_put(d, where, j);
    if (!event) return await(d, own);
    *event = own;
    return PST_OK;
}

static pst_status run_fill(far *d, job *j) {
    memset(far_real(d, j->to), j->value, j->bytes);
    return PST_OK;
}

static pst_status fill(pst_device *device, pst_queue where, void *to, uint8_t value,
                       uint64_t bytes) {
    job *j = far_job(run_fill);
    j->to = to;
    j->value = value;
    j->bytes = bytes;
    far_put((far *)device, where, j);
    return PST_OK;
}

static pst_status run_rows(far *d, job *j) {
    uint8_t *to = far_real(d, j->to);
    const uint8_t *from = far_real(d, j->from);
    for (uint64_t i = 0; i < j->n[2]; i++) memcpy(to + i * j->n[0], from + i * j->n[1], j->bytes);
    return PST_OK;
}

static pst_status copy_rows(pst_device *device, pst_queue where, const pst_device_rows *rows) {
    const uint64_t n[] = {rows->to_distance, rows->from_distance, rows->n};
    job *j = far_job(run_rows);
    j->to = rows->to;
    j->from = rows->from;
    j->bytes = rows->bytes;
    if (!(j->n = malloc(sizeof n))) abort();
    memcpy(j->n, n, sizeof n);
    far_put((far *)device, where, j);
    return PST_OK;
}

static const char *model(const pst_device_config *config) {
    (void)config;
    return getenv("FAR_MODEL") ? getenv("FAR_MODEL") : "Distant 1";
}

/* As if every rank had one of its own. */
static uint64_t room(const pst_device_config *config, uint32_t ranks_here) {
    (void)config;
    (void)ranks_here;
    return getenv("FAR_MEMORY") ? strtoull(getenv("FAR_MEMORY"), NULL, 10) : 0;
}

/* As if kernels had taken some. */
static uint64_t apart(const pst_device *device) {
    (void)device;
    return getenv("FAR_APART") ? strtoull(getenv("FAR_APART"), NULL, 10) : 0;
}

static pst_device_ops ops = {.name = "far",
                             .open = open_device,
                             .launch = launch,
                             .launch_beside = launch_beside,
                             .test = test,
                             .next_ns = next_ns,
                             .close = close_device,
                             .flags = PST_DEVICE_OWN_MEMORY | PST_DEVICE_ASYNC,
                             .memory = memory,
                             .staging = staging,
                             .copy = copy,
                             .copy_rows = copy_rows,
                             .fill = fill,
                             .model = model,
                             .available = room,
                             .workspace_bytes = apart,
                             .capture_begin = capture_begin,
                             .capture_end = capture_end,
                             .replay = replay};

static pst_status open_device(const pst_device_config *config, pst_device **out) {
    far *d = calloc(1, sizeof *d);
    if (!d) return pst_fail(PST_ENOMEM, "no memory for the far device");
    const pst_device_config inner = {.threads = config->threads, .clock = config->clock};
    pst_status status = pst_device_cpu.open(&inner, &d->cpu);
    if (status != PST_OK) {
        free(d);
        return status;
    }
    d->m.base = (pst_device){
        .ops = &ops, .clock = config->clock, .isa = d->cpu->isa, .threads = config->threads};
    d->m.put = put_other;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->moved, NULL);
    for (int q = 0; q < PST_Q_COUNT; q++) {
        d->queue[q].device = d;
        d->queue[q].last = &d->queue[q].first;
        pthread_cond_init(&d->queue[q].filled, NULL);
        if (pthread_create(&d->queue[q].thread, NULL, serve, &d->queue[q])) abort();
    }
    *out = &d->m.base;
    return PST_OK;
}

/* --- kernels ---------------------------------------------------------------------------------- */

static const pst_kernel_row *inner[MAX_ROWS];
static pst_kernel_row rows[MAX_ROWS];
static uint32_t n_row;
static _Atomic int launched; /* of the kernel that fails one day */

/* FAR_FAIL=NODE:PASS:N */
static int fails(const job *j) {
    const char *what = getenv("FAR_FAIL"), *colon = what ? strchr(what, ':') : NULL;
    const char *name = j->call.node->name;
    if (!colon || strlen(name) != (size_t)(colon - what) || strncmp(what, name, strlen(name)))
        return 0;
    return "FBW"[inner[j->value]->pass] == colon[1] && ++launched == atoi(colon + 3);
}

static pst_status run_kernel(far *d, job *j) {
    if (fails(j)) return pst_fail(PST_EINTERNAL, "far: an illegal address");
    if (far_f8_takes(inner[j->value], &j->call))
        return far_f8_launch(&d->f8, inner[j->value], d->cpu, &j->call);
    if (far_gaps_has(inner[j->value], &j->call))
        return far_gaps_launch(inner[j->value], d->cpu, &j->call);
    return inner[j->value]->launch(d->cpu, &j->call);
}

/* --- choices: which of no algorithms multiplies ----------------------------------------------- */

static pst_status give(pst_device *device, int measures, const pst_choice *list, uint32_t n) {
    far_choices_give(&((far *)device)->choices, measures, list, n);
    return PST_OK;
}

static int take(pst_device *device, uint32_t i, pst_choice *choice) {
    return far_choices_take(&((far *)device)->choices, i, choice);
}

static pst_status compare(pst_device *device, uint32_t i, pst_choice_times *times) {
    (void)device;
    *times = (pst_choice_times){2e-3, 1.25e-3 + 1e-6 * i, 1e-3, 7};
    return PST_OK;
}

static const pst_choice_ops choices = {give, take, compare};

/* Of linear: before there is memory, and before the first launch. */
static pst_status prepare(pst_device *device, const pst_graph *g, const pst_node *node) {
    far *d = (far *)device;
    if (d->m.memory)
        return pst_fail(PST_EINTERNAL, "far: %s is prepared when memory is taken", node->name);
    for (uint32_t i = 0; i < d->n_prepared; i++)
        if (d->prepared[i] == node) return PST_OK;
    if (d->n_prepared == FAR_PREPARED) return pst_fail(PST_ENOMEM, "far: too many nodes");
    d->prepared[d->n_prepared++] = node;
    far_choices_choose(&d->choices, model(NULL), g->param + node->param[0]);
    return PST_OK;
}

static int is_prepared(const far *d, const pst_node *node) {
    uint32_t i = 0;
    while (i < d->n_prepared && d->prepared[i] != node) i++;
    return i < d->n_prepared;
}

static pst_status queue_kernel(pst_device *device, const pst_call *call, uint32_t row) {
    far *d = (far *)device;
    if (rows[row].prepare && !is_prepared(d, call->node))
        return pst_fail(PST_EINTERNAL, "far: %s has not been prepared", call->node->name);
    const char *batch = getenv("FAR_BATCH");
    if (batch && call->train && call->step != call->sample / strtoull(batch, NULL, 10))
        return pst_fail(PST_EINTERNAL, "far: sample %llu is not of step %llu",
                        (unsigned long long)call->sample, (unsigned long long)call->step);
    job *j = far_job(run_kernel);
    uint32_t n = 0;
    j->value = (int)row;
    j->call = *call;
    j->call.scratch = far_real(d, call->scratch);
    j->call.arg = j->arg;
    for (n = 0; n < PST_MAX_ARG; n++)
        j->arg[n] = far_real(d, call->arg[n]); /* those behind the last are not used */
    far_put(d, PST_Q_COMPUTE, j);
    return PST_OK;
}

/* All that have `step` or `loss_scale` from a call, and those that a GPU's kernels complain of by
 * their launch, are launched each time. */
static int captures(pst_device *device, const pst_call *call) {
    (void)device;
    return strcmp(call->node->op->name, "linear") ||
           pst_node_factors(call->graph, call->node) != PST_F8;
}

static int may_be_captured(const char *op) {
    static const char *const never[] = {"embedding", "cross_entropy", "vocabulary_part",
                                        "vocabulary_loss"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (!strcmp(op, never[i])) return 0;
    return 1;
}

/* A row's function is not told which row it is of. */
#define T(n)                                                                                       \
    static pst_status launch_##n(pst_device *d, const pst_call *c) {                               \
        return queue_kernel(d, c, n - 1000);                                                       \
    }
#define TEN(t) T(t##0) T(t##1) T(t##2) T(t##3) T(t##4) T(t##5) T(t##6) T(t##7) T(t##8) T(t##9)
#define N(n) launch_##n,
#define TEN_NAMES(t) N(t##0) N(t##1) N(t##2) N(t##3) N(t##4) N(t##5) N(t##6) N(t##7) N(t##8) N(t##9)
/* clang-format off */
#define ALL(X) \
    X(100) X(101) X(102) X(103) X(104) X(105) X(106) X(107) \
    X(108) X(109) X(110) X(111) X(112) X(113) X(114) X(115) \
    X(116) X(117) X(118) X(119) X(120) X(121) X(122) X(123) \
    X(124) X(125) X(126) X(127) X(128) X(129) X(130) X(131) \
    X(132) X(133) X(134) X(135) X(136) X(137) X(138) X(139) \
    X(140) X(141) X(142) X(143) X(144) X(145) X(146) X(147)
/* clang-format on */
ALL(TEN)
static pst_status (*const launches[])(pst_device *, const pst_call *) = {ALL(TEN_NAMES)};

static void add_rows(const pst_kernel_row *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++, n_row++) {
        if (n_row == MAX_ROWS) abort();
        inner[n_row] = &list[i];
        rows[n_row] = list[i];
        rows[n_row].launch = launches[n_row];
        if (!strcmp(list[i].op, "linear")) rows[n_row].prepare = prepare;
        if (may_be_captured(list[i].op)) rows[n_row].captures = captures;
    }
}

/* --- the module ------------------------------------------------------------------------------- */

static const char *about(uint32_t line) {
    static char text[160];
    snprintf(
        text, sizeof text,
        "far: %d launches waited at once, %d of %d were asked for, %d captures, %d replays, %d "
        "beside",
        most_waiting, n_asked, n_launch, n_capture, n_replay, n_beside);
    return line ? NULL : text;
}

static pst_module module = {.version = PST_MODULE_VERSION,
                            .bytes = sizeof module,
                            .name = "far",
                            .device = &ops,
                            .kernel = rows,
                            .arith = &far_arith,
                            .direct = &pst_far_direct,
                            .choices = &choices,
                            .about = about};

__attribute__((visibility("default"))) const pst_module *
pst_module_open(const pst_module_host *given);
const pst_module *pst_module_open(const pst_module_host *given) {
    uint32_t n;
    const char *version = getenv("FAR_VERSION");
    const char *captured_ones = getenv("FAR_CAPTURE");
    if (captured_ones && !atoi(captured_ones)) {
        ops.capture_begin = NULL;
        ops.capture_end = NULL;
        ops.replay = NULL;
    }
    if (getenv("FAR_NEAR")) {
        away_by = 0;
        ops.flags |= PST_DEVICE_CUDA;
    }
    if (getenv("FAR_GAPS")) ops.flags |= PST_DEVICE_PADDED;
    if (getenv("FAR_SUMS")) ops.flags |= PST_DEVICE_SUMS;
    pst_module_host_set(given);
    if (version) module.version = (uint32_t)atoi(version);
    const pst_kernel_row *cpu = pst_kernels_cpu(&n);
    add_rows(cpu, n);
    const pst_kernel_row *ref = pst_kernels_ref(&n);
    add_rows(ref, n);
    module.n_kernel = n_row;
    return &module;
}
