/* A job: the instruction lists of all ranks, compiled from a schedule per replica and a cut per
 * tensor rank; or, for predictions only, the lists of a single lane. instr.h explains the lists. */
#ifndef PST_PIPELINE_COMPILE_JOB_H
#define PST_PIPELINE_COMPILE_JOB_H
#include "base/codec.h"
#include "pipeline/cluster/cluster.h"
#include "pipeline/compile/cut.h"
#include "pipeline/compile/instr.h"
#include "pipeline/compile/share.h"
#include "pipeline/compile/slots.h"
#include "pipeline/layout/grid.h"
#include "pipeline/schedule/schedule.h"

/* Offsets of all buffers in the arena of a rank (pipeline/memory/map.h). */
typedef struct pst_memory_map pst_memory_map;

struct pst_job {
    uint32_t n_rank, n_chunk, n_micro; /* n_micro: largest number of micro-batches of a replica */
    int backward, split;
    /* [n_chunk] stage of each chunk; borrowed from the schedule, which must outlive the job */
    const uint32_t *rank_of_chunk;
    pst_instr_list *list; /* [n_rank] */
    pst_grid grid;        /* grid of the n_rank ranks */
    uint32_t *micros;     /* [owners of the grid] micro-batches of each replica; 0: a server */
    /* 1: the first micro-batch of the first replica has fewer samples than the others */
    int rest;
    /* Islands (outer.h), 1: there are none. The replicas of an island, grid.data / islands adjacent
     * ones, exchange gradients in every step; lists with `syncs` end with the outer step. */
    uint32_t islands;
    int syncs;
    int velocity; /* 1: the outer step has momentum */
    /* Two-level exchange (flush.h): so many adjacent owners of an island are on one host, and one
     * of them adds their gradients before the sum leaves it. A power of two that divides the number
     * of replicas of an island; 1: the exchange is flat. */
    uint32_t near;
    /* codec with which islands pack what they send to owners (outer.h); PST_CODEC_NONE: weights are
     * sent in fp32 */
    pst_codec islands_codec;
    /* The parameters are divided into `fragments` (0: one), `fragment`: [n_param] that of each.
     * part: lists with `syncs` exchange fragment part - 1; 0: all. delay: steps of an exchange
     * (outer.h); 0: it is at the end of one list. PST_SYNC_TURN: the list has turn `turn` of it. */
    uint32_t fragments, part, delay, turn;
    uint32_t *fragment;
    uint32_t outer_sets; /* sets of receive buffers of an exchange with a delay */
    /* [grid.tensor][messages] with a delay: the middle of a message among those of its fragment and
     * owner, as a share of their elements: from 0 to less than 1 */
    double **outer_at;
    /* [grid.tensor] who takes the outer step of a piece: owner m x islands + k is replica m of
     * island k; these parts are inside those of `share`. NULL: no islands */
    pst_share **outer;
    uint32_t n_seq; /* sequence numbers of messages are below n_seq */
    int zero;       /* ZeRO stage; 0 if islands have one replica */
    /* number of gradient accumulators per use of a parameter; each sums an equal share of the
     * rank's micro-batches. 1 with zero 2 */
    uint32_t parts;
    int post; /* post-validation: VALIDATE follows STEP */
    /* delayed updates: STEP applies the gradients of so many steps before (flush.h); 0: not */
    uint32_t staleness;
    /* 1: asynchronous updates: servers own all, and apply the gradients of each replica by
     * themselves, in any order (flush.h). A replica is then called a worker */
    int async;
    int eager;  /* 1: owners update and send back each piece as soon as it is added (flush.h) */
    int narrow; /* 1: replicas send gradients in bf16 */
    /* codecs (PST_CODEC_NONE: none) with which replicas pack gradients, and owners the changes of
     * weights, which are sent in the flush (zero 1; flush.h); bytes of the smallest parameter that
     * is packed */
    pst_codec up, down;
    uint64_t min_bytes;
    uint8_t *packs; /* [grid.pipeline] 1: replicas pack the parameters of this stage */
    /* 1: nothing is packed yet: residuals stay as they are, and whole weights are sent in the flush
     * instead of changes */
    int plain;
    pst_share **share; /* [grid.tensor] */
    /* [n_param] number of pieces of each parameter, on the tensor rank with the largest number; all
     * lanes number messages of pieces accordingly */
    uint32_t n_param, *pieces;
    /* [n_rank] factor on the durations of the cut; NULL: 1 */
    double *slow;
    int alone; /* 1: only lane `lane` has lists, for predictions (pst_job_spec) */
    uint32_t lane;
    /* [n_rank] first rank on the host of each rank; the ranks of a host share the link to other
     * hosts. NULL: each rank has a separate link */
    uint32_t *host;
    /* [n_rank] bytes per second of all NICs of the rank's host together; NULL: the bandwidth of one
     * rank's link */
    double *host_bytes_per_s;
};
/* Returns the duration on a rank of steps that take `ns` by the cut. Apply it to the sum of the
 * steps of a program, because the result is rounded. */
static inline uint64_t pst_job_slowed(const pst_job *job, uint32_t rank, uint64_t ns) {
    return job->slow && job->slow[rank] != 1 ? (uint64_t)((double)ns * job->slow[rank]) : ns;
}

/* Compiles the lists of a job with one lane. The caller frees *job and *slots. EINPUT: split or
 * backward differ between schedule and cut; ENOMEM. */
pst_status pst_job_build(const pst_schedule *schedule, const pst_cut *cut,
                         const pst_instr_cost *cost, pst_job **job, pst_slots **slots);

/* The input of pst_job_build_grid: several lanes that train one model. Every replica has a schedule
 * of grid.pipeline ranks with the same placement of chunks; the numbers of micro-batches may
 * differ. Every tensor rank of the widest stage has a cut, with the same chunks; lane t (grid.h) of
 * every replica uses cut t in all stages. */
typedef struct {
    pst_grid grid;
    const pst_schedule *const *schedule; /* [grid.data]; servers have no passes */
    const pst_cut *const *cut;           /* [grid.tensor] */
    const pst_instr_cost *cost;
    int zero;       /* ZeRO stage; 2 only with one accumulator per use */
    uint32_t parts; /* number of accumulators per use; 0: 1 */
    int narrow;     /* 1: replicas send gradients in bf16; only with one accumulator per use */
    /* as in pst_job; not with zero 2, several accumulators per use or `narrow`; down: with zero 1
     * and weights in fp32 */
    pst_codec up, down;
    int plain;
    uint64_t min_bytes;
    const uint8_t *packs; /* [grid.pipeline] copied; NULL: none packs */
    /* as in pst_job; islands 0: 1; not with `alone`. fragment: copied; NULL: one fragment */
    uint32_t islands;
    int syncs, velocity;
    /* as in pst_job, 0: 1; above 1 with zero 0 or 1, fp32 gradients, no codec, and without servers,
     * staleness and cost->fifo */
    uint32_t near;
    uint32_t fragments, part, delay, turn;
    const uint32_t *fragment;
    pst_codec islands_codec; /* as in pst_job; not with a delay */
    uint64_t message;        /* pst_share.message, in elements; 0: one piece */
    /* [grid.pipeline][owners of the grid] pst_share_owners.weight, NULL: equal. With servers: zero
     * 1 and no codec */
    const uint32_t *weight;
    int eager; /* as in pst_job; only with servers, zero 1, and without cost->post */
    /* as in pst_job; with zero 0 or 1, fp32 gradients, no codec and no islands, and without eager,
     * cost->post, cost->fifo and `alone` */
    uint32_t staleness;
    /* as in pst_job; with servers, of which `weight` gives all to these, zero 1, one tensor rank,
     * fp32 gradients, no codec, no islands, and without eager, staleness and cost->post */
    int async;
    /* [ranks of the grid] factor on the durations of the cut, copied; NULL: 1 */
    const double *slow;
    /* 1: compile only lane `lane`, for predictions and checks; such a job cannot run. A few
     * messages of each rank to itself replace the messages to and from other replicas and take the
     * same time (summary.c), as if all replicas were synchronous. Memory and all other instructions
     * are those of the whole job. For the other tensor ranks, cuts from pst_cut_open_uses are
     * enough; only slots[lane] is set. */
    int alone;
    uint32_t lane;
    /* [grid.pipeline] link of a rank of each stage to other replicas; NULL: the
     * link of `cost` */
    const pst_cluster_link *exchange;
} pst_job_spec;
/* Compiles the lists of a job with several lanes. slots: [lanes of the grid] array of the caller;
 * the caller frees each element and *job. */
pst_status pst_job_build_grid(const pst_job_spec *spec, pst_job **job, pst_slots **slots);
/* PST_PIECES_IN_FLIGHT: number of pieces that a rank receives at once from all other replicas;
 * PST_PIECES_BESIDE: the same with delayed updates, where they wait until an operator has ended.
 * pst_job_in_flight returns the number of messages, at most PST_MESSAGES_IN_FLIGHT: more where
 * messages are shorter than a piece. pst_job_group returns the number of replicas that exchange
 * gradients. pst_job_buffers returns the number of receive buffers for reductions over replicas. */
enum { PST_PIECES_IN_FLIGHT = 4, PST_PIECES_BESIDE = 16, PST_MESSAGES_IN_FLIGHT = 64 };
static inline uint32_t pst_job_in_flight(const pst_job *job) {
    const uint32_t pieces = job->staleness ? PST_PIECES_BESIDE : PST_PIECES_IN_FLIGHT;
    const uint64_t n = pieces * PST_PIECE / pst_share_grain(job->share[0]);
    return n < PST_MESSAGES_IN_FLIGHT ? (uint32_t)n : PST_MESSAGES_IN_FLIGHT;
}
static inline uint32_t pst_job_group(const pst_job *job) { return job->grid.data / job->islands; }
/* pst_job_owner_buffers returns the buffers for a piece at its owner; those of the pieces of which
 * this rank is a relay follow those of all owned pieces in flight. */
static inline uint32_t pst_job_owner_buffers(const pst_job *job) {
    return job->near - 1 + pst_job_group(job) / job->near - 1;
}
static inline uint32_t pst_job_buffers(const pst_job *job) {
    if (pst_job_group(job) == 1 || job->async) return 0;
    return pst_job_in_flight(job) * (pst_job_owner_buffers(job) + job->near - 1);
}
/* Returns 1 if islands pack the differences of a parameter; running statistics are sent as weights.
 */
static inline int pst_job_packs_islands(const pst_job *job, const pst_param *param) {
    return job->islands_codec.kind != PST_CODEC_NONE && !param->statistic;
}
/* Values of `syncs`, 0: the list has no exchange between islands. */
enum { PST_SYNC_END = 1, PST_SYNC_TURN = 2 };
/* Returns the number of receive buffers of the exchange between islands. With a delay they keep
 * what is in them from list to list. */
static inline uint32_t pst_job_outer_buffers(const pst_job *job) {
    const uint32_t sets = job->syncs ? PST_PIECES_IN_FLIGHT : 0;
    return (job->delay ? job->outer_sets : sets) * (job->islands - 1);
}
/* Returns 1 if this list exchanges the parameter between islands. */
static inline int pst_job_exchanges(const pst_job *job, uint32_t param) {
    return job->syncs && (!job->part || job->fragment[param] == job->part - 1);
}
/* Exchanges with a delay: the last turn in which weights are sent to owners, at the end of which
 * these take the outer step; and the turns in which message `number` of a tensor rank is sent to
 * and from its owner: about equal bytes in each turn for every owner. */
static inline uint32_t pst_job_outer_turn(const pst_job *job) {
    return job->delay > 1 ? job->delay / 2 : 1;
}
static inline uint32_t pst_job_turn_to(const pst_job *job, uint32_t tensor, uint32_t number) {
    return 1 + (uint32_t)(job->outer_at[tensor][number] * pst_job_outer_turn(job));
}
static inline uint32_t pst_job_turn_from(const pst_job *job, uint32_t tensor, uint32_t number) {
    const uint32_t first = pst_job_outer_turn(job), n = job->delay - first;
    return n ? first + 1 + (uint32_t)(job->outer_at[tensor][number] * n) : first;
}
/* Returns the index of a replica or server among the owners of its island, or the index of its
 * island. Jobs with islands have no servers. */
static inline uint32_t pst_job_member(const pst_job *job, uint32_t replica) {
    return job->islands > 1 ? replica % pst_job_group(job) : replica;
}
static inline uint32_t pst_job_island(const pst_job *job, uint32_t replica) {
    return job->islands > 1 ? replica / pst_job_group(job) : 0;
}
/* Returns the number of owners in an island: its replicas, or all replicas and servers. */
static inline uint32_t pst_job_owners(const pst_job *job) {
    return pst_job_group(job) + job->grid.servers;
}
/* Returns the replica or server that is this owner in the island of `replica`. */
static inline uint32_t pst_job_peer(const pst_job *job, uint32_t replica, uint32_t member) {
    return pst_job_island(job, replica) * pst_job_group(job) + member;
}
/* Two-level exchange. Returns the owner with which `member` exchanges what belongs to `owner`: the
 * owner itself, or the relay of the member's host for this owner. pst_job_relays returns 1 if
 * `member` is that relay. The relays of different owners are different members of a host. */
static inline uint32_t pst_job_via(const pst_job *job, uint32_t member, uint32_t owner) {
    const uint32_t relay = member / job->near * job->near + owner % job->near;
    const int direct = job->near == 1 || member / job->near == owner / job->near;
    return direct || relay == member ? owner : relay;
}
static inline int pst_job_relays(const pst_job *job, uint32_t member, uint32_t owner) {
    return job->near > 1 && member / job->near != owner / job->near &&
           member % job->near == owner % job->near;
}
/* Returns the owner (job.outer) of the pieces of which this replica takes the outer step. */
static inline uint32_t pst_job_outer_owner(const pst_job *job, uint32_t replica) {
    return pst_job_member(job, replica) * job->islands + pst_job_island(job, replica);
}
/* For a parameter whose first use is on `stage`, return 1 if: parallel.compress includes it
 * (running statistics have no gradient); its gradients have residuals; replicas pack its gradients
 * now; its owner sends the changes of the weight. */
static inline int pst_job_compresses(const pst_job *job, uint32_t stage, const pst_param *param) {
    return job->packs && job->packs[stage] && !param->statistic && pst_param_gradients(param) &&
           pst_param_elements(param) * sizeof(float) >= job->min_bytes;
}
static inline int pst_job_has_residual(const pst_job *job, uint32_t stage, const pst_param *param) {
    return job->up.kind != PST_CODEC_NONE && pst_job_compresses(job, stage, param);
}
/* Replicas have second moments of their own, and their messages steps (pst_codec.moments). */
static inline int pst_job_has_moments(const pst_job *job, uint32_t stage, const pst_param *param) {
    return job->up.moments && pst_job_has_residual(job, stage, param);
}
static inline int pst_job_packs(const pst_job *job, uint32_t stage, const pst_param *param) {
    return !job->plain && pst_job_has_residual(job, stage, param);
}
static inline int pst_job_sends_changes(const pst_job *job, uint32_t stage,
                                        const pst_param *param) {
    return job->down.kind != PST_CODEC_NONE && pst_job_compresses(job, stage, param);
}
/* Returns the bytes of n elements of a weight that is sent in the flush. */
static inline uint64_t pst_job_change_bytes(const pst_job *job, uint64_t n) {
    return job->plain ? n * sizeof(float) : pst_codec_bytes(job->down, n);
}
/* Returns the codec of a message of packed gradients that begins with element `from` of the
 * parameter. */
static inline pst_codec pst_job_codec(const pst_job *job, const pst_param *param, uint64_t from) {
    return pst_codec_of_rows(job->up, pst_param_elements(param) / param->dim[0], from);
}
/* Returns the elements of the basis of a parameter with residuals (pst_codec_basis). */
static inline uint64_t pst_job_basis(const pst_job *job, const pst_param *param) {
    return pst_codec_basis(pst_job_codec(job, param, 0), pst_param_elements(param));
}
/* Returns the bytes of n elements of a replica's gradient in a message. */
static inline uint64_t pst_job_gradient_bytes(const pst_job *job, const pst_param *param,
                                              int packed, uint64_t n) {
    if (packed) return pst_codec_bytes(pst_job_codec(job, param, 0), n);
    return n * (job->narrow ? 2 : sizeof(float));
}
/* Returns the number of pieces of all parameters. */
static inline uint32_t pst_job_pieces(const pst_job *job) {
    uint32_t n = 0;
    for (uint32_t p = 0; p < job->n_param; p++) n += job->pieces[p];
    return n;
}
/* Returns 1 if the gradient of parameter `param` on this tensor rank is sharded. */
static inline int pst_job_shards_gradient(const pst_job *job, uint32_t tensor, uint32_t param) {
    return job->zero == 2 && job->backward && !job->share[tensor]->whole[param];
}
static inline uint32_t pst_job_stage(const pst_job *job, uint32_t rank) {
    return pst_grid_stage(job->grid, rank);
}
/* Return the range of lanes with lists, [first, end). */
static inline uint32_t pst_job_first_lane(const pst_job *job) { return job->alone ? job->lane : 0; }
static inline uint32_t pst_job_end_lane(const pst_job *job) {
    return job->alone ? job->lane + 1 : pst_grid_lanes(job->grid);
}
/* Returns the next rank with a list; n_rank: there is none. */
static inline uint32_t pst_job_next(const pst_job *job, uint32_t rank) {
    if (!job->alone) return rank + 1;
    uint32_t stage = pst_job_stage(job, rank) + 1;
    return stage < job->grid.pipeline ? pst_grid_in_lane(job->grid, stage, job->lane) : job->n_rank;
}
/* Returns the rank that computes the total norm (GATHER): the first rank with a list. */
static inline uint32_t pst_job_gathers(const pst_job *job) {
    return pst_grid_in_lane(job->grid, 0, pst_job_first_lane(job));
}
/* The replicas whose gradients are added, and that have one norm and one loss: those of an island,
 * or with asynchronous updates each by itself. Returns the first one of those of `replica`; their
 * number. */
static inline uint32_t pst_job_norm_first(const pst_job *job, uint32_t replica) {
    return job->async ? replica : pst_job_island(job, replica) * pst_job_group(job);
}
static inline uint32_t pst_job_norm_replicas(const pst_job *job) {
    return job->async ? 1 : pst_job_group(job);
}
/* Returns the number of such groups of replicas. */
static inline uint32_t pst_job_norms(const pst_job *job) {
    return job->grid.data / pst_job_norm_replicas(job);
}
/* Returns the rank that computes the total norm for this rank: that of its island or worker. A
 * server with asynchronous updates has none (PST_NONE): each worker tells it its norm. */
static inline uint32_t pst_job_root(const pst_job *job, uint32_t rank) {
    if (job->async) {
        const uint32_t replica = pst_grid_at(job->grid, rank).replica;
        return replica < job->grid.data ? pst_grid_rank(job->grid, 0, replica, 0) : PST_NONE;
    }
    if (job->islands == 1) return pst_job_gathers(job);
    uint32_t island = pst_job_island(job, pst_grid_at(job->grid, rank).replica);
    return pst_grid_rank(job->grid, 0, island * pst_job_group(job), 0);
}
/* Returns the number of ranks with the same root. */
static inline uint32_t pst_job_rooted(const pst_job *job) {
    if (!job->async) return job->n_rank / job->islands;
    return (job->n_rank - pst_grid_servers(job->grid)) / job->grid.data;
}
static inline int pst_job_is_server(const pst_job *job, uint32_t rank) {
    return pst_grid_is_server(job->grid, rank);
}
/* Asynchronous updates: returns the server that decides in which order gradients are applied; the
 * worker that an instruction of a server is for. */
static inline uint32_t pst_job_leader(const pst_job *job) {
    return pst_grid_rank(job->grid, 0, job->grid.data, 0);
}
static inline uint32_t pst_job_worker_of(const pst_job *job, const pst_instr *in) {
    const int named = pst_queue_computes(in->queue) || in->param == PST_NONE;
    return named ? in->micro : pst_grid_at(job->grid, in->peer).replica;
}
/* The norm, loss and clip factor of a worker; between servers also the number of the update. */
enum { PST_NORM_DOUBLES = 3, PST_SERVED_DOUBLES = 4 };
/* Returns the number of pieces whose squares this rank sums for the norm. */
static inline uint32_t pst_job_norm_pieces(const pst_job *job, uint32_t rank) {
    const pst_grid_place at = pst_grid_at(job->grid, rank);
    const pst_share *share = job->share[at.tensor];
    uint32_t n = 0;
    if (!job->async) return pst_share_pieces(share, at.stage, pst_job_member(job, at.replica));
    for (uint32_t k = 0; k < share->n_owner && at.replica < job->grid.data; k++)
        n += pst_share_pieces(share, at.stage, k);
    return n;
}
/* Returns the number of micro-batches of a rank. */
static inline uint32_t pst_job_micros(const pst_job *job, uint32_t rank) {
    return job->micros[pst_grid_at(job->grid, rank).replica];
}
/* Returns 1 for the step's first micro-batch if it has fewer samples than the others. */
static inline int pst_job_is_rest(const pst_job *job, uint32_t replica, uint32_t micro) {
    return job->rest && !replica && !micro;
}
/* Returns the bytes of all messages between replicas with parameters (gradients, sums, weights)
 * and, if messages between stages are packed, of these, if none were packed, over their bytes: 1 if
 * nothing is packed. cut: [grid.tensor], of the lists. */
double pst_job_compression(const pst_job *job, const pst_cut *const *cut);
void pst_job_close(pst_job *job);
/* Writes all lists as text to `out`. ENOMEM if `out` cannot be written. */
pst_status pst_job_print(const pst_job *job, FILE *out);
/* Returns 1 if an instruction exchanges a piece of a gradient before the flush: in a round (zero 2,
 * rounds.h), or early (early.h; chunk and micro are then 0). */
static inline int pst_job_is_piece(const pst_instr_list *list, uint32_t i) {
    const pst_instr *in = &list->instr[i];
    return list->n_flush && !pst_instr_is_head(list, i) && !pst_instr_is_flush(list, i) &&
           in->opcode > PST_OP_BW && in->param != PST_NONE && in->local == PST_NONE;
}
/* Returns the steps of a pass instruction (of the whole pass or of a part), and sets *n to their
 * number. */
static inline const pst_step *pst_job_steps(const pst_cut *cut, const pst_instr *in, uint32_t *n) {
    const pst_program *program =
        &pst_cut_of(cut, in->rest != 0)->chunk[in->chunk].program[in->opcode];
    *n = in->n ? in->n : program->n_step;
    return program->step + (in->n ? in->from : 0);
}
/* Returns 0 for a part of a pass that is not the first part, else 1. */
static inline int pst_instr_begins(const pst_instr *in) {
    return in->opcode > PST_OP_BW || !in->n || !in->from;
}
#endif
