/* See far_choices.h. */
#include "far/far_choices.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void use_given(const far_choices *c, pst_choice *choice) {
    for (uint32_t i = 0; i < c->n_given; i++)
        if (!strcmp(c->given[i].of, choice->of)) *choice = c->given[i];
}

void far_choices_choose(far_choices *c, const char *model, const pst_param *w) {
    pst_choice choice;
    snprintf(choice.of, sizeof choice.of, "%s: %ux%u", model, (unsigned)w->dim[0],
             (unsigned)w->dim[1]);
    snprintf(choice.is, sizeof choice.is, "%s%d", c->measures ? "measured " : "first",
             c->measures ? (int)getpid() : 0);
    for (uint32_t i = 0; i < c->n_chosen; i++)
        if (!strcmp(c->chosen[i].of, choice.of)) return;
    use_given(c, &choice);
    c->chosen = realloc(c->chosen, (c->n_chosen + 1) * sizeof choice);
    if (!c->chosen) abort();
    c->chosen[c->n_chosen++] = choice;
}

void far_choices_give(far_choices *c, int measures, const pst_choice *list, uint32_t n) {
    free(c->given);
    c->given = malloc(n * sizeof *list + 1);
    c->n_given = n;
    c->measures = measures;
    if (!c->given) abort();
    for (uint32_t i = 0; i < n; i++) c->given[i] = list[i];
    for (uint32_t i = 0; i < c->n_chosen; i++) use_given(c, &c->chosen[i]);
}

int far_choices_take(const far_choices *c, uint32_t i, pst_choice *choice) {
    if (i >= c->n_chosen) return 0;
    *choice = c->chosen[i];
    return 1;
}

void far_choices_close(far_choices *c) {
    free(c->given);
    free(c->chosen);
}
