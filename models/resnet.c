/* Residual networks (He et al. 2016) over images [b,H,W,C]: those of the paper for ImageNet, with
 * basic blocks (18, 34) or bottlenecks (50, 101, 152; stride in the 3x3 convolution, as in
 * torchvision), and those for CIFAR (20, 32, 44, 56, 110), whose three stages have 6n+2 layers.
 *
 *     pixels -> stem -> stages of blocks -> average_pool -> linear -> cross_entropy <- targets
 *     block: x -> conv norm relu (conv norm relu) conv norm, + x or its projection, relu
 *
 * A norm, the sum of a residual branch and the ReLU after it are one operator. Parameters have
 * torchvision's names. */
#include "models/model.h"
#include <math.h>
#include <string.h>

static const pst_model_preset presets[] = {{.name = "resnet20", .layers = 20, .channels = 16},
                                           {.name = "resnet56", .layers = 56, .channels = 16},
                                           {.name = "resnet18", .layers = 18, .channels = 64},
                                           {.name = "resnet34", .layers = 34, .channels = 64},
                                           {.name = "resnet50", .layers = 50, .channels = 64},
                                           {.name = "resnet101", .layers = 101, .channels = 64},
                                           {.name = "resnet152", .layers = 152, .channels = 64}};

/* A variant, with the number of blocks of each stage. */
typedef struct {
    uint32_t layers, n_stage, blocks[4];
    int bottleneck, small; /* small: for images of a few pixels, without the stem's strides */
} variant;

static const variant known[] = {{18, 4, {2, 2, 2, 2}, 0, 0},
                                {34, 4, {3, 4, 6, 3}, 0, 0},
                                {50, 4, {3, 4, 6, 3}, 1, 0},
                                {101, 4, {3, 4, 23, 3}, 1, 0},
                                {152, 4, {3, 8, 36, 3}, 1, 0}};

static pst_status find_variant(uint32_t layers, variant *f) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].layers == layers) {
            *f = known[i];
            return PST_OK;
        }
    uint32_t n = layers > 2 ? (layers - 2) / 6 : 0;
    *f = (variant){layers, 3, {n, n, n}, 0, 1};
    if (n && 6 * n + 2 == layers) return PST_OK;
    return pst_fail(
        PST_EINPUT,
        "model.layers is %u; a resnet has 18, 34, 50, 101, 152 or 6n+2 layers (8, 14, 20, ...)",
        layers);
}

static pst_status preset(pst_model_config *config) {
    config->context = config->context ? config->context : 1; /* one target for each sample */
    return pst_model_fill(config, presets, sizeof presets / sizeof *presets, "layers and channels");
}

typedef struct {
    const pst_model_config *c;
    variant variant;
    pst_graph *g;
    uint32_t x; /* the newest tensor, which the next operator reads */
} model;

static uint64_t channels_of(const model *m) { return m->g->tensor[m->x].dim[3]; }

/* PREFIX.WHAT; a prefix longer than half a name is cut. */
static const char *name_of(char *text, const char *prefix, const char *what) {
    snprintf(text, PST_NAME_MAX, "%.*s.%s", PST_NAME_MAX / 2, prefix, what);
    return text;
}

/* He et al. 2015, fan-out: keeps the variance of gradients through a ReLU. */
static pst_status add_convolution(model *m, const char *name, uint64_t out, uint32_t window,
                                  uint32_t stride) {
    char text[PST_NAME_MAX];
    uint64_t shape[] = {out, window, window, channels_of(m)};
    uint32_t weight;
    float std = (float)sqrt(2.0 / (double)(out * window * window));
    PST_TRY(pst_graph_add_param(m->g, name_of(text, name, "weight"), 4, shape, PST_INIT_NORMAL, std,
                                1, &weight));
    return pst_graph_add_convolution(m->g, name, m->x, weight, PST_NONE, stride, window / 2, &m->x);
}

static pst_status add_norm(model *m, const char *name, uint32_t residual,
                           pst_activation activation) {
    return pst_graph_add_batch_norm(m->g, name, m->x, residual, activation, 1e-5f, &m->x);
}

/* A layer of a block: a convolution and its norm; residual: the tensor to add before the
 * activation, or PST_NONE. */
typedef struct {
    uint32_t number;
    uint64_t out;
    uint32_t window, stride, residual;
} layer;

static pst_status add_layer(model *m, const char *block, layer l) {
    char what[16], text[PST_NAME_MAX];
    snprintf(what, sizeof what, "conv%u", l.number);
    PST_TRY(add_convolution(m, name_of(text, block, what), l.out, l.window, l.stride));
    snprintf(what, sizeof what, "bn%u", l.number);
    return add_norm(m, name_of(text, block, what), l.residual, PST_ACT_RELU);
}

/* The shortcut around a block: x or, where the shape changes, its projection. */
static pst_status add_shortcut(model *m, const char *block, uint64_t out, uint32_t stride,
                               uint32_t *residual) {
    char text[PST_NAME_MAX];
    uint32_t x = m->x;
    *residual = x;
    if (channels_of(m) == out && stride == 1) return PST_OK;
    PST_TRY(add_convolution(m, name_of(text, block, "downsample.0"), out, 1, stride));
    PST_TRY(add_norm(m, name_of(text, block, "downsample.1"), PST_NONE, PST_ACT_NONE));
    *residual = m->x;
    m->x = x;
    return PST_OK;
}

static pst_status add_block(model *m, const char *block, uint64_t width, uint32_t stride) {
    uint32_t residual, deep = (uint32_t)m->variant.bottleneck;
    uint64_t out = deep ? 4 * width : width;
    PST_TRY(add_shortcut(m, block, out, stride, &residual));
    if (deep) PST_TRY(add_layer(m, block, (layer){1, width, 1, 1, PST_NONE}));
    PST_TRY(add_layer(m, block, (layer){1 + deep, width, 3, stride, PST_NONE}));
    return add_layer(m, block, (layer){2 + deep, out, deep ? 1 : 3, 1, residual});
}

static pst_status add_stem(model *m) {
    int small = m->variant.small;
    PST_TRY(add_convolution(m, "conv1", m->c->channels, small ? 3 : 7, small ? 1 : 2));
    PST_TRY(add_norm(m, "bn1", PST_NONE, PST_ACT_RELU));
    return small ? PST_OK : pst_graph_add_max_pool(m->g, "maxpool", m->x, 3, 2, 1, &m->x);
}

static pst_status add_stages(model *m) {
    char name[PST_NAME_MAX];
    for (uint32_t s = 0; s < m->variant.n_stage; s++)
        for (uint32_t i = 0; i < m->variant.blocks[s]; i++) {
            snprintf(name, sizeof name, "layer%u.%u", s + 1, i);
            PST_TRY(add_block(m, name, (uint64_t)m->c->channels << s, s > 0 && i == 0 ? 2 : 1));
        }
    return PST_OK;
}

static pst_status fill_graph(model *m) {
    const pst_model_config *c = m->c;
    uint64_t image[] = {c->micro_batch, c->image, c->image, c->depth}, one[] = {c->micro_batch, 1};
    uint32_t targets = PST_NONE;
    PST_TRY(pst_graph_data(m->g, "pixels", 4, image, &m->x));
    if (pst_model_has_loss(c)) PST_TRY(pst_graph_data(m->g, "targets", 2, one, &targets));
    PST_TRY(pst_graph_add_pixels(m->g, "normalize", m->x, &m->x)); /* [b,H,W,C] */
    PST_TRY(add_stem(m));
    PST_TRY(add_stages(m));
    PST_TRY(pst_graph_add_average_pool(m->g, "avgpool", m->x, &m->x)); /* [b,1,C] */
    float std = (float)sqrt(1.0 / (double)m->g->tensor[m->x].dim[2]);
    PST_TRY(pst_graph_add_dense(m->g, "fc", m->x, c->vocabulary, std, PST_ACT_NONE, &m->x));
    if (pst_model_has_loss(c))
        return pst_graph_add_cross_entropy(m->g, "loss", m->x, targets, &m->x);
    m->g->tensor[m->x].role = PST_TENSOR_OUTPUT;
    return PST_OK;
}

static pst_status build(const pst_model_config *config, pst_graph **graph) {
    model m = {.c = config};
    if (!config->image)
        return pst_fail(PST_EINPUT, "model.image is 0; set it to the images' height in pixels, or "
                                    "set data.kind to mnist or cifar10");
    PST_TRY(pst_model_check(config));
    PST_TRY(find_variant(config->layers, &m.variant));
    if (config->context != 1)
        return pst_fail(PST_EINPUT,
                        "model.context is %u; a resnet needs 1: each image has one class",
                        config->context);
    if (config->dropout > 0)
        return pst_fail(PST_EINPUT, "model.dropout: a resnet has no dropout; leave it at 0");
    PST_TRY(pst_graph_open("resnet", config->micro_batch, &m.g));
    pst_graph_compute(m.g, config->dtype);
    pst_status status = fill_graph(&m);
    if (status == PST_OK) {
        *graph = m.g;
        return PST_OK;
    }
    pst_graph_close(m.g);
    return pst_fail_in(status, "model resnet");
}

const pst_model_row pst_model_resnet = {.name = "resnet",
                                        .presets = presets,
                                        .n_preset = sizeof presets / sizeof *presets,
                                        .preset = preset,
                                        .build = build};
