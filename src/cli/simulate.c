/* penstock simulate */
#include "cli.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STAGES = 4096 };

/* Reads groups of `each` numbers: commas between numbers, colons between groups (each 1: only
 * commas). Returns the number of groups, 0 if the text has another form. */
static int64_t read_numbers(const char *text, int each, double *to) {
    const char *at = text;
    for (int64_t n = 0; n < (int64_t)each * MOST_STAGES; at++) {
        char *end;
        double value = strtod(at, &end);
        if (end == at || !isfinite(value) || value < 0 || value > 1e9) return 0;
        to[n++] = value;
        at = end;
        if (!*at && n % each == 0) return n / each;
        if (*at != (each > 1 && n % each == 0 ? ':' : ',')) return 0;
    }
    return 0;
}

/* times, memory: NULL if not given. */
static int read_stages(const char *times, const char *memory, double *all_times, double *all_memory,
                       pst_simulate_options *o) {
    if (!(o->n_times = read_numbers(times ? times : "1,1,1", 3, all_times)))
        return pst_cli_wrong("--times '%.60s': expected three durations in milliseconds, F,B,W, "
                             "such as 1,1,1, or three for each stage, F,B,W:F,B,W:...",
                             times);
    if (memory && !(o->n_memory = read_numbers(memory, 1, all_memory)))
        return pst_cli_wrong("--memory '%.60s': expected a number of micro-batches, such as 4, or "
                             "one for each rank, such as 4,4,3,2",
                             memory);
    o->times_ms = all_times;
    o->memory = all_memory;
    return 0;
}

/* Either a plan, or a schedule with its sizes. times, memory: NULL if not given. */
static int check(const pst_command *command, size_t n, const pst_simulate_options *o,
                 const char *times, const char *memory) {
    if (n == 1 && o->schedule)
        return pst_cli_wrong("a plan has its own schedule: leave out --schedule or the plan");
    if (n == 1 && (o->stages || o->micro_batches || o->chunks))
        return pst_cli_wrong(
            "--stages, --chunks and --micro-batches need --schedule; a plan sets these numbers");
    if (n == 1 && (times || memory || o->message_bytes >= 0))
        return pst_cli_wrong("--times, --message and --memory need --schedule; a plan already sets "
                             "durations and limits");
    if (n == 0 && !o->schedule)
        return pst_cli_wrong("nothing to simulate; usage: %s %s", command->command,
                             command->operands);
    if (n == 0 && *o->report)
        return pst_cli_wrong("--report needs a plan: a schedule alone has no model to show");
    if (n == 0 && !strcmp(o->schedule, "all") &&
        (o->transport || o->execute || *o->trace || *o->svg || *o->csv))
        return pst_cli_wrong("--schedule all only compares makespans: leave out --transport, "
                             "--execute, --trace, --svg and --csv");
    return 0;
}

int pst_cli_simulate(const pst_cli_call *call) {
    pst_simulate_options o = {.size = sizeof o,
                              .trace = "",
                              .svg = "",
                              .csv = "",
                              .report = "",
                              .message_bytes = -1,
                              .rounds = 5,
                              .argv = call->program_argv};
    const char *times = NULL, *memory = NULL;
    pst_option_list what_if = {0};
    double all_times[3 * MOST_STAGES], all_memory[MOST_STAGES];
    const pst_option rows[] = {
        {0, "schedule", "NAME", PST_OPTION_STRING, 0, 0,
         "The schedule, such as gpipe, 1f1b, zb-h1 or zb-v; solved: computed for --times and "
         "--memory; custom: read from --csv; all: a table that compares all schedules.",
         &o.schedule},
        {'p', "stages", "P", PST_OPTION_INT, 1, MOST_STAGES, "Number of pipeline stages.",
         &o.stages},
        {0, "chunks", "V", PST_OPTION_INT, 1, 64,
         "Chunks per stage; by default the number that the schedule prescribes.", &o.chunks},
        {'m', "micro-batches", "M", PST_OPTION_INT, 1, 1048576, "Micro-batches per step.",
         &o.micro_batches},
        {0, "times", "F,B,W", PST_OPTION_STRING, 0, 0,
         "Milliseconds of a stage's forward pass, input gradient and weight gradient, 1,1,1 by "
         "default; F,B,W:F,B,W:... sets each stage.",
         &times},
        {0, "transfer", "MS", PST_OPTION_FLOAT, 0, 1e9,
         "Milliseconds per message; 0 by default. For a plan, durations of messages are estimated "
         "instead.",
         &o.transfer_ms},
        {0, "memory", "A", PST_OPTION_STRING, 0, 0,
         "Memory limit of each rank, as a number of micro-batches; a micro-batch occupies memory "
         "from the start of F to the end of W. A,A,... sets each rank; no limit by default.",
         &memory},
        {0, "what-if", "KEY=VALUE", PST_OPTION_LIST, 0, 0,
         "Also simulate the plan with a change of its cluster, such as link.ib=200Gb/s, "
         "link.ib.latency=20us, device.3.speed=0.5 or device.*.memory=40GiB; may be given several "
         "times.",
         &what_if},
        {0, "program", "NAME", PST_OPTION_STRING, 0, 0,
         "Simulate the plan with the durations of this program: penstock (default), "
         "megatron-2021, megatron-core, fsdp or llm.c; changed values of its profile may follow, "
         "such as 'fsdp attention=flash2'.",
         &o.program},
        {0, "trace", "FILE", PST_OPTION_STRING, 0, 0,
         "Write the timeline as Chrome trace JSON, for Perfetto.", &o.trace},
        {0, "svg", "FILE", PST_OPTION_STRING, 0, 0, "Write the timeline as an SVG picture.",
         &o.svg},
        {0, "report", "FILE", PST_OPTION_STRING, 0, 0,
         "Write an HTML report of the plan: cut, timeline, times and memory.", &o.report},
        {0, "csv", "FILE", PST_OPTION_STRING, 0, 0,
         "Write the schedule as CSV for PyTorch's pipelining runtime; with --schedule custom, read "
         "it from this file.",
         &o.csv},
        {0, "json", NULL, PST_OPTION_FLAG, 0, 0, "Print JSON.", &o.json},
        {0, "execute", NULL, PST_OPTION_FLAG, 0, 0,
         "Also run the executor on a virtual clock, and compare the start and end of every "
         "instruction with the simulation.",
         &o.execute},
        {0, "transport", "NAME", PST_OPTION_STRING, 0, 0,
         "Also run the schedule in real time, without computing, and compare the duration with the "
         "simulation. ucx: one process per stage; self: all stages in one process.",
         &o.transport},
        {0, "message", "BYTES", PST_OPTION_INT, 0, 1 << 30,
         "Bytes per message between stages; 65536 by default.", &o.message_bytes},
        {0, "rounds", "N", PST_OPTION_INT, 1, 10000, "Number of repetitions with --transport.",
         &o.rounds},
    };
    const pst_command command = {
        "penstock simulate",
        "PLAN.yaml | --schedule NAME --stages P --micro-batches M [--times F,B,W]",
        "Simulates a training step without training: the instruction lists of a plan, or a "
        "schedule over stages of given durations. With --transport it also runs the messages in "
        "real time. A plan needs the run file that it names, or run.yaml in its folder.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 0, 1) || check(&command, n, &o, times, memory) ||
        read_stages(times, memory, all_times, all_memory, &o))
        return pst_status_exit(PST_EINPUT);
    if (o.message_bytes < 0) o.message_bytes = 64 << 10;
    if (o.transport && o.execute)
        return pst_cli_wrong("--execute and --transport exclude each other: leave out one");
    o.what_if = what_if.item;
    o.n_what_if = (int64_t)what_if.n;
    if (what_if.n && (n == 0 || o.transport))
        return pst_cli_wrong(n ? "--what-if and --transport exclude each other: leave out one"
                               : "--what-if needs a plan");
    if (o.program && (n == 0 || o.transport))
        return pst_cli_wrong(n ? "--program and --transport exclude each other: leave out one"
                               : "--program needs a plan");
    if (n == 1) o.plan = call->argv[1];
    if (o.transport) pst_cli_ignore_sigpipe();
    return pst_cli_end(pst_simulate_study(&o, stdout));
}
