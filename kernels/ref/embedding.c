/* Reference embedding: out[b,t,:] = wte[token[b,t],:] (+ wpe[t - start[b,t],:], or
 * wpe[past[b] + t,:]) (+ wtt[type[b,t],:]). The result is 0 for tokens whose rows another tensor
 * rank has. Position and type are added first: the same bits if one tensor rank has the token,
 * another the position. */
#include "kernels/ref/ref.h"
#include "kernels/shape.h"
#include <string.h>

typedef struct {
    uint64_t b, t, c, v, t_max, first, n_type;
    const int32_t *starts, *past, *type;
} sizes;

static sizes sizes_of(const pst_call *call) {
    const pst_tensor *tokens = pst_call_in(call, 0);
    const pst_node *node = call->node;
    const pst_param *wte = &call->graph->param[node->param[0]];
    sizes s = {.b = pst_tensor_rows(tokens),
               .t = pst_tensor_last(tokens),
               .c = wte->dim[1],
               .v = wte->dim[0],
               .first = node->attr.first,
               .starts = pst_call_starts(call),
               .past = pst_call_past(call),
               .type = pst_call_types(call)};
    if (node->n_param > 1) s.t_max = call->graph->param[node->param[1]].dim[0];
    if (s.type) s.n_type = call->graph->param[node->param[2]].dim[0];
    return s;
}

/* The row of the position table for row i of the output. */
static uint64_t position_of(const sizes *s, uint64_t i) {
    return pst_position_of(s->starts, s->past, i, s->t, s->t_max);
}

static pst_status check_indices(const pst_call *call, const sizes *s) {
    const uint64_t n = s->b * s->t;
    PST_TRY(pst_call_check_index(call, call->arg[0], n, pst_call_tokens(call, s->v), 0));
    return s->type ? pst_call_check_index(call, s->type, n, s->n_type, 0) : PST_OK;
}

/* F: IN0 [IN1] PARAM0 [PARAM1] [PARAM2] OUT0 */
pst_status pst_ref_embedding_f(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    const int32_t *token = call->arg[0];
    void *const *behind = pst_call_behind(call);
    const float *wte = behind[0], *wpe = s.t_max ? behind[1] : NULL,
                *wtt = s.type ? behind[2] : NULL;
    float *out = behind[call->node->n_param];
    PST_TRY(check_indices(call, &s));
    for (uint64_t i = 0; i < s.b * s.t; i++) {
        uint64_t at = (uint64_t)token[i] - s.first; /* wraps around to a large number if before the
                                                       first */
        const float *row = at < s.v ? wte + at * s.c : NULL;
        const float *position = wpe ? wpe + position_of(&s, i) * s.c : NULL;
        const float *type = wtt ? wtt + (uint64_t)s.type[i] * s.c : NULL;
        for (uint64_t c = 0; c < s.c; c++) {
            float of_token = row ? row[c] : 0.0f;
            float of_position = position ? position[c] : 0.0f;
            if (type) of_position += type[c];
            out[i * s.c + c] = of_token + of_position;
        }
    }
    return PST_OK;
}

/* W: IN0 [IN1] DOUT0 DPARAM0 [DPARAM1] [DPARAM2]. call->first also zeroes the rows of tokens that
 * do not occur. */
pst_status pst_ref_embedding_w(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    const int32_t *token = call->arg[0];
    void *const *behind = pst_call_behind(call);
    const float *dout = behind[0];
    float *dwte = behind[1];
    float *dwpe = s.t_max ? behind[2] : NULL;
    float *dwtt = s.type ? behind[3] : NULL;
    PST_TRY(check_indices(call, &s));
    if (call->first) {
        memset(dwte, 0, s.v * s.c * sizeof(float));
        if (dwpe) memset(dwpe, 0, s.t_max * s.c * sizeof(float));
        if (dwtt) memset(dwtt, 0, s.n_type * s.c * sizeof(float));
    }
    for (uint64_t i = 0; i < s.b * s.t; i++) {
        uint64_t at = (uint64_t)token[i] - s.first;
        float *row = at < s.v ? dwte + at * s.c : NULL;
        for (uint64_t c = 0; row && c < s.c; c++) row[c] += dout[i * s.c + c];
        for (uint64_t c = 0; dwpe && c < s.c; c++)
            dwpe[position_of(&s, i) * s.c + c] += dout[i * s.c + c];
        for (uint64_t c = 0; dwtt && c < s.c; c++)
            dwtt[(uint64_t)s.type[i] * s.c + c] += dout[i * s.c + c];
    }
    return PST_OK;
}
