/* Embedding, and rows of activations by their positions. W of embedding: a tile has a range of
 * channels and visits all positions in order, so a token's gradients are summed in the order of
 * positions, for any number of threads. */

enum { EMBED_ROWS = 32, EMBED_COLS = 64, EMBED_CLEAR = 64 };

typedef struct {
    uint64_t rows, t, c, v, t_max, first_token, n_type;
    const int32_t *token, *starts, *past, *type; /* starts, past, type: NULL: none */
    const vx *wte, *wpe, *wtt;
    const void *dy;
    void *out;
    float *dwte, *dwpe, *dwtt;
    int first, wide; /* wide: out and dy are fp32 */
} embed_job;

static embed_job embed_of(const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    const pst_node *node = call->node;
    const pst_param *wte = &call->graph->param[node->param[0]];
    embed_job j = {.t = pst_tensor_last(in),
                   .c = wte->dim[1],
                   .v = wte->dim[0],
                   .token = call->arg[0],
                   .starts = pst_call_starts(call),
                   .past = pst_call_past(call),
                   .type = pst_call_types(call),
                   .first = call->first,
                   .wide = is_wide(call, node->out[0]),
                   .first_token = node->attr.first};
    j.rows = pst_tensor_rows(in) * j.t;
    if (node->n_param > 1) j.t_max = call->graph->param[node->param[1]].dim[0];
    if (j.type) j.n_type = call->graph->param[node->param[2]].dim[0];
    return j;
}

static pst_status embed_check(const pst_call *call, const embed_job *j) {
    PST_TRY(pst_call_check_index(call, j->token, j->rows, pst_call_tokens(call, j->v), 0));
    return j->type ? pst_call_check_index(call, j->type, j->rows, j->n_type, 0) : PST_OK;
}

/* Returns the index of the token's row in the table; >= v: another tensor rank has this row. */
static inline uint64_t embed_row(const embed_job *j, uint64_t r) {
    return (uint64_t)j->token[r] - j->first_token;
}

/* The row of the position table for row r of the output. */
static inline uint64_t embed_position(const embed_job *j, uint64_t r) {
    return pst_position_of(j->starts, j->past, r, j->t, j->t_max);
}

VEC_INLINE void embed_f_rows(const embed_job *j, uint64_t tile, int wide) {
    uint64_t end = pst_min_u64((tile + 1) * EMBED_ROWS, j->rows);
    for (uint64_t r = tile * EMBED_ROWS; r < end; r++) {
        uint64_t row = embed_row(j, r);
        const vx *wte = row < j->v ? j->wte + row * j->c : NULL,
                 *wpe = j->wpe ? j->wpe + embed_position(j, r) * j->c : NULL,
                 *wtt = j->wtt ? j->wtt + (uint64_t)j->type[r] * j->c : NULL;
        VEC_EACH(i, n, j->c, {
            vf v = wte ? x_load_n(wte + i, n) : v_set(0.0f);
            if (wtt) {
                /* rounded as a tensor rank's part that lacks the token */
                vf part = x_load_n(wpe + i, n) + x_load_n(wtt + i, n);
                v = v + (wide ? part : x_round(part));
            } else if (wpe) {
                v = v + x_load_n(wpe + i, n);
            }
            s_store_n(j->out, r * j->c + i, v, n, wide);
        });
    }
}

static void embed_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const embed_job *j = arg;
    VEC_FORM(embed_f_rows, j->wide, j, tile);
}

/* IN0 [IN1] PARAM0 [PARAM1] [PARAM2] OUT0 */
static pst_status embedding_f(pst_device *device, const pst_call *call) {
    embed_job j = embed_of(call);
    PST_TRY(embed_check(call, &j));
    void *const *behind = pst_call_behind(call);
    j.wte = behind[0];
    j.wpe = j.t_max ? behind[1] : NULL;
    j.wtt = j.type ? behind[2] : NULL;
    j.out = behind[call->node->n_param];
    pst_device_run(device, embed_f_tile, &j, pst_div_up(j.rows, EMBED_ROWS));
    return PST_OK;
}

static void embed_clear_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const embed_job *j = arg;
    uint64_t row = tile * EMBED_CLEAR;
    memset(j->dwte + row * j->c, 0, pst_min_u64(EMBED_CLEAR, j->v - row) * j->c * sizeof(float));
}

/* Adds columns [col, col + cols) of row r of dy to `to`. */
VEC_INLINE void embed_add(const embed_job *j, uint64_t r, uint64_t col, uint64_t cols, float *to,
                          int wide) {
    uint64_t from = r * j->c + col;
    VEC_EACH(i, n, cols,
             { v_store_n(to + i, v_load_n(to + i, n) + s_load_n(j->dy, from + i, n, wide), n); });
}

static void embed_w_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const embed_job *j = arg;
    uint64_t col = tile * EMBED_COLS, cols = pst_min_u64(EMBED_COLS, j->c - col);
    for (uint64_t r = 0; r < j->rows; r++) {
        uint64_t row = embed_row(j, r);
        if (row >= j->v) continue;
        VEC_FORM(embed_add, j->wide, j, r, col, cols, j->dwte + row * j->c + col);
    }
}

/* A tile is a range of positions; the samples are added in order. */
static void embed_position_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const embed_job *j = arg;
    uint64_t end = pst_min_u64((tile + 1) * EMBED_ROWS, j->t_max);
    for (uint64_t t = tile * EMBED_ROWS; t < end; t++) {
        float *out = j->dwpe + t * j->c;
        if (j->first) memset(out, 0, j->c * sizeof *out);
        for (uint64_t r = t; t < j->t && r < j->rows; r += j->t)
            VEC_FORM(embed_add, j->wide, j, r, 0, j->c, out);
    }
}

/* With starts, where a position may occur several times in a sample: a tile is a range of columns,
 * as in embed_w_tile. */
static void embed_started_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const embed_job *j = arg;
    uint64_t col = tile * EMBED_COLS, cols = pst_min_u64(EMBED_COLS, j->c - col);
    for (uint64_t t = 0; j->first && t < j->t_max; t++)
        memset(j->dwpe + t * j->c + col, 0, cols * sizeof *j->dwpe);
    for (uint64_t r = 0; r < j->rows; r++)
        VEC_FORM(embed_add, j->wide, j, r, col, cols, j->dwpe + embed_position(j, r) * j->c + col);
}

/* As embed_started_tile, for the types of tokens. */
static void embed_type_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const embed_job *j = arg;
    uint64_t col = tile * EMBED_COLS, cols = pst_min_u64(EMBED_COLS, j->c - col);
    for (uint64_t k = 0; j->first && k < j->n_type; k++)
        memset(j->dwtt + k * j->c + col, 0, cols * sizeof *j->dwtt);
    for (uint64_t r = 0; r < j->rows; r++)
        VEC_FORM(embed_add, j->wide, j, r, col, cols, j->dwtt + (uint64_t)j->type[r] * j->c + col);
}

/* IN0 [IN1] DOUT0 DPARAM0 [DPARAM1] [DPARAM2] */
static pst_status embedding_w(pst_device *device, const pst_call *call) {
    embed_job j = embed_of(call);
    void *const *behind = pst_call_behind(call);
    j.dy = behind[0];
    j.dwte = behind[1];
    j.dwpe = j.t_max ? behind[2] : NULL;
    j.dwtt = j.type ? behind[3] : NULL;
    PST_TRY(embed_check(call, &j));
    if (j.first) pst_device_run(device, embed_clear_tile, &j, pst_div_up(j.v, EMBED_CLEAR));
    pst_device_run(device, embed_w_tile, &j, pst_div_up(j.c, EMBED_COLS));
    if (j.dwpe && j.starts)
        pst_device_run(device, embed_started_tile, &j, pst_div_up(j.c, EMBED_COLS));
    else if (j.dwpe)
        pst_device_run(device, embed_position_tile, &j, pst_div_up(j.t_max, EMBED_ROWS));
    if (j.dwtt) pst_device_run(device, embed_type_tile, &j, pst_div_up(j.c, EMBED_COLS));
    return PST_OK;
}

/* --- gather_rows ------------------------------------------------------------------------------ */

typedef struct {
    pst_gather_shape s;
    const int32_t *position;
    const uint8_t *x;
    const void *dy;
    void *out;
    uint64_t row_bytes;
    int wide;
} gather_job;

static gather_job gather_of(const pst_call *call) {
    gather_job j = {.s = pst_gather_shape_of(call), .wide = is_wide(call, call->node->in[0])};
    j.row_bytes = j.s.c * (j.wide ? sizeof(float) : sizeof(vx));
    return j;
}

static void gather_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const gather_job *j = arg;
    uint64_t end = pst_min_u64((tile + 1) * EMBED_ROWS, j->s.b * j->s.p);
    for (uint64_t i = tile * EMBED_ROWS; i < end; i++) {
        uint8_t *to = (uint8_t *)j->out + i * j->row_bytes;
        uint64_t row = pst_gather_row(&j->s, j->position, i);
        if (row == UINT64_MAX) memset(to, 0, j->row_bytes);
        else memcpy(to, j->x + row * j->row_bytes, j->row_bytes);
    }
}

/* IN0 [IN1] OUT0 */
static pst_status gather_rows_f(pst_device *device, const pst_call *call) {
    gather_job j = gather_of(call);
    j.x = call->arg[0];
    j.position = j.s.positions ? call->arg[1] : NULL;
    j.out = call->arg[1 + j.s.positions];
    PST_TRY(pst_gather_check(call, &j.s, j.position));
    pst_device_run(device, gather_f_tile, &j, pst_div_up(j.s.b * j.s.p, EMBED_ROWS));
    return PST_OK;
}

/* The gradient of x before the rows are added to it. */
static void gather_begin_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const gather_job *j = arg;
    uint64_t row = tile * EMBED_ROWS, rows = pst_min_u64(EMBED_ROWS, j->s.b * j->s.t - row);
    uint8_t *to = (uint8_t *)j->out + row * j->row_bytes;
    if (j->x) memcpy(to, j->x + row * j->row_bytes, rows * j->row_bytes);
    else memset(to, 0, rows * j->row_bytes);
}

VEC_INLINE void gather_add(const gather_job *j, uint64_t from, uint64_t to, uint64_t cols,
                           int wide) {
    VEC_EACH(i, n, cols, {
        vf v = s_load_n(j->out, to + i, n, wide) + s_load_n(j->dy, from + i, n, wide);
        s_store_n(j->out, to + i, v, n, wide);
    });
}

/* A tile is a range of columns of one sample; its rows are added in order. */
static void gather_b_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const gather_job *j = arg;
    uint64_t blocks = pst_div_up(j->s.c, EMBED_COLS), col = tile % blocks * EMBED_COLS,
             cols = pst_min_u64(EMBED_COLS, j->s.c - col), first = tile / blocks * j->s.p;
    for (uint64_t i = first; i < first + j->s.p; i++) {
        uint64_t row = pst_gather_row(&j->s, j->position, i);
        if (row == UINT64_MAX) continue;
        VEC_FORM(gather_add, j->wide, j, i * j->s.c + col, row * j->s.c + col, cols);
    }
}

/* [IN1] DOUT0 SUM0 DIN0 (may be SUM0) */
static pst_status gather_rows_b(pst_device *device, const pst_call *call) {
    gather_job j = gather_of(call);
    void *const *behind = call->arg + j.s.positions;
    j.position = j.s.positions ? call->arg[0] : NULL;
    j.dy = behind[0];
    j.x = behind[1];
    j.out = behind[2];
    PST_TRY(pst_gather_check(call, &j.s, j.position));
    if (j.out != j.x)
        pst_device_run(device, gather_begin_tile, &j, pst_div_up(j.s.b * j.s.t, EMBED_ROWS));
    pst_device_run(device, gather_b_tile, &j, j.s.b * pst_div_up(j.s.c, EMBED_COLS));
    return PST_OK;
}
