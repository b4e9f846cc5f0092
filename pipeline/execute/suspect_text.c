/* A rank's position as text: operator, micro-batch, optimizer step. */
#include "pipeline/execute/suspect.h"
#include <stdio.h>
#include <string.h>

/* "B of h.3.attn" for operator `step` of a chunk's program, else the opcode's name. */
static void name_operator(const pst_cut *cut, const pst_instr *instr, uint32_t step, char *buffer,
                          uint32_t bytes) {
    const char *opcode = pst_opcode_name((pst_opcode)instr->opcode);
    uint32_t n = 0;
    const pst_step *steps =
        cut && instr->opcode <= PST_OP_BW ? pst_job_steps(cut, instr, &n) : NULL;
    if (n && cut->graph) {
        if (step >= n) step = n - 1;
        snprintf(buffer, bytes, "%s of %s", opcode, cut->graph->node[steps[step].node].name);
    } else {
        snprintf(buffer, bytes, "%s", opcode);
    }
}

/* An instruction as text: "RECV of chunk 1, micro-batch 2, from rank 2". */
static void name_message(const pst_job *job, uint32_t rank, uint32_t instr, char *buffer,
                         uint32_t bytes) {
    const pst_instr *in = job->list[rank].instr + instr;
    const char *way = in->opcode == PST_OP_SEND ? "to" : "from",
               *opcode = pst_opcode_name((pst_opcode)in->opcode);
    if (in->local != PST_NONE)
        snprintf(buffer, bytes, "%s of chunk %u, micro-batch %u, %s rank %u", opcode, in->chunk,
                 in->micro, way, in->peer);
    else if (in->n)
        snprintf(buffer, bytes, "%s of a shard of a %s %s rank %u", opcode,
                 in->use == PST_NONE ? "weight" : "gradient", way, in->peer);
    else if (in->param != PST_NONE)
        snprintf(buffer, bytes, "%s of a tied parameter's gradient %s rank %u", opcode, way,
                 in->peer);
    else snprintf(buffer, bytes, "%s of the gradient norm %s rank %u", opcode, way, in->peer);
}

static void place_in_list(const pst_suspect_scene *s, uint32_t rank, char *buffer, uint32_t bytes) {
    const pst_position_view *at = &s->rank[rank].at;
    const pst_job *job = s->job[at->train != 0];
    char name[128], message[144] = "", step[48] = ", evaluation";
    int waits = at->activity == PST_AT_WAIT;
    if (at->train) snprintf(step, sizeof step, ", step %llu", (unsigned long long)at->train_step);
    if (!job) {
        snprintf(buffer, bytes, "an instruction list");
        return;
    }
    const pst_instr_list *list = job->list + rank;
    if (waits && at->waits_for < list->n_instr) {
        name_message(job, rank, at->waits_for, name, sizeof name);
        snprintf(message, sizeof message, "%s before ", name);
    } else if (waits) {
        snprintf(message, sizeof message, "an instruction before ");
    }
    if (at->instr >= list->n_instr) {
        snprintf(buffer, bytes, "%sthe end of the instruction list%s", message, step);
        return;
    }
    const pst_instr *in = list->instr + at->instr;
    name_operator(s->cut[at->train != 0], in, at->step, name, sizeof name);
    if (in->opcode <= PST_OP_BW)
        snprintf(buffer, bytes, "%s%s (chunk %u), micro-batch %u%s", message, name, in->chunk,
                 in->micro, step);
    else snprintf(buffer, bytes, "%s%s%s", message, name, step);
}

static void place_in_collective(const pst_position_view *at, pst_suspect_coll_name coll_name,
                                char *buffer, uint32_t bytes) {
    char site[sizeof at->site + 1] = "";
    memcpy(site, at->site, sizeof at->site);
    snprintf(buffer, bytes, "collective %u (%s of %llu bytes%s%s) after step %llu", at->n_coll,
             coll_name(at->coll_kind), (unsigned long long)at->coll_bytes, site[0] ? ", " : "",
             site, (unsigned long long)at->train_step);
}

const char *pst_suspect_where(const pst_suspect_scene *s, uint32_t rank,
                              pst_suspect_coll_name coll_name, char *buffer, uint32_t bytes) {
    const pst_suspect_rank *r = &s->rank[rank];
    if (!r->known) snprintf(buffer, bytes, "an unknown position");
    else if (r->left) snprintf(buffer, bytes, "its normal end");
    else if (r->at.activity == PST_AT_COLLECTIVE)
        place_in_collective(&r->at, coll_name, buffer, bytes);
    else if (r->at.activity == PST_AT_HOST)
        snprintf(buffer, bytes,
                 "host code outside instruction lists and collectives, after step %llu",
                 (unsigned long long)r->at.train_step);
    else place_in_list(s, rank, buffer, bytes);
    return buffer;
}
