/* See sampler.h. */
#include "generate/sampler.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

pst_status pst_sampler_open(const pst_sampling *how, const pst_tokenizer *tokenizer,
                            uint32_t vocabulary, pst_sampler *out) {
    const uint32_t size = pst_tokenizer_size(tokenizer), n = vocabulary < size ? vocabulary : size;
    pst_sampler s = {.how = *how, .n = n};
    s.has = malloc(n);
    s.seen = calloc(n, 1);
    s.logit = malloc(n * sizeof *s.logit);
    s.weight = malloc(n * sizeof *s.weight);
    s.order = malloc(n * sizeof *s.order);
    if (!s.has || !s.seen || !s.logit || !s.weight || !s.order) {
        pst_sampler_close(&s);
        return pst_fail(PST_ENOMEM, "no memory to choose from %u tokens", n);
    }
    for (uint32_t i = 0; i < n; i++) s.has[i] = pst_tokenizer_has(tokenizer, (int32_t)i) != 0;
    *out = s;
    return PST_OK;
}

void pst_sampler_close(pst_sampler *s) {
    free(s->has);
    free(s->seen);
    free(s->logit);
    free(s->weight);
    free(s->order);
    *s = (pst_sampler){0};
}

/* --- logits ----------------------------------------------------------------------------------- */

static void penalize(pst_sampler *s, const int32_t *token, uint64_t n_token) {
    const float by = (float)s->how.repetition;
    for (uint64_t i = 0; i < n_token; i++) {
        const uint32_t t = (uint32_t)token[i];
        if (t >= s->n || s->seen[t]) continue;
        s->seen[t] = 1;
        s->logit[t] = s->logit[t] > 0 ? s->logit[t] / by : s->logit[t] * by;
    }
    for (uint64_t i = 0; i < n_token; i++)
        if ((uint32_t)token[i] < s->n) s->seen[token[i]] = 0;
}

static uint32_t most_likely(const pst_sampler *s) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < s->n; i++)
        if (s->logit[i] > s->logit[best]) best = i;
    return best;
}

/* Restores the order of a heap with the smallest number at its root, which has changed. */
static void sift_down(float *heap, uint64_t n) {
    for (uint64_t i = 0, child = 1; child < n; i = child, child = 2 * i + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[i] <= heap[child]) return;
        float other = heap[i];
        heap[i] = heap[child];
        heap[child] = other;
    }
}

/* The k-th largest logit, 1 <= k < n; `weight` is memory. */
static float kth_largest(pst_sampler *s, uint64_t k) {
    float *heap = s->weight;
    for (uint64_t i = 0; i < k; i++) heap[i] = -INFINITY;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->logit[i] <= heap[0]) continue;
        heap[0] = s->logit[i];
        sift_down(heap, k);
    }
    return heap[0];
}

/* --- probabilities ---------------------------------------------------------------------------- */

/* Sets the weights: exp((logit - the largest) / temperature), 0 for tokens that top-k leaves out.
 */
static void weigh(pst_sampler *s, float top) {
    const uint64_t k = s->how.top_k;
    const float least = k && k < s->n ? kth_largest(s, k) : -INFINITY;
    const float scale = (float)(1 / s->how.temperature);
    for (uint32_t i = 0; i < s->n; i++)
        s->weight[i] = s->logit[i] >= least ? expf((s->logit[i] - top) * scale) : 0;
}

static double sum_of(const pst_sampler *s) {
    double sum = 0;
    for (uint32_t i = 0; i < s->n; i++) sum += s->weight[i];
    return sum;
}

static int by_weight(const void *a, const void *b, void *weight) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const float *w = weight;
    if (w[x] != w[y]) return w[x] < w[y] ? 1 : -1;
    return x < y ? -1 : 1;
}

/* Sorts only the tokens whose weights suffice for top-p: those above a limit that is lowered until
 * they add up to enough. */
static void keep_top_p(pst_sampler *s) {
    enum { STEPS = 16 };
    const double enough = s->how.top_p * sum_of(s);
    float limit = 1;
    uint32_t n = 0;
    double sum = 0;
    for (int step = 0; sum < enough && step <= STEPS; step++) {
        limit = step < STEPS ? limit / 8 : 0;
        n = 0;
        sum = 0;
        for (uint32_t i = 0; i < s->n; i++) {
            if (s->weight[i] <= limit) continue;
            s->order[n++] = i;
            sum += s->weight[i];
        }
    }
    qsort_r(s->order, n, sizeof *s->order, by_weight, s->weight);
    uint32_t kept = 0;
    for (sum = 0; kept < n && sum < enough; kept++) sum += s->weight[s->order[kept]];
    float *chosen = s->logit; /* not needed any more */
    for (uint32_t i = 0; i < kept; i++) chosen[i] = s->weight[s->order[i]];
    memset(s->weight, 0, s->n * sizeof *s->weight);
    for (uint32_t i = 0; i < kept; i++) s->weight[s->order[i]] = chosen[i];
}

int32_t pst_sampler_draw(pst_sampler *s, const float *logits, const int32_t *token,
                         uint64_t n_token, double u) {
    const pst_sampling *how = &s->how;
    for (uint32_t i = 0; i < s->n; i++) s->logit[i] = s->has[i] ? logits[i] : -INFINITY;
    if (how->repetition > 0 && how->repetition != 1) penalize(s, token, n_token);
    const uint32_t best = most_likely(s);
    if (!(how->temperature > 0)) return (int32_t)best;
    weigh(s, s->logit[best]);
    if (how->top_p > 0 && how->top_p < 1) keep_top_p(s);
    for (uint32_t i = 0; how->min_p > 0 && i < s->n; i++) /* the largest weight is 1 */
        if (s->weight[i] < (float)how->min_p) s->weight[i] = 0;
    double at = u * sum_of(s);
    for (uint32_t i = 0; i < s->n; i++)
        if ((at -= s->weight[i]) < 0) return (int32_t)i;
    return (int32_t)best;
}
