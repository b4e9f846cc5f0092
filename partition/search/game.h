/* The best mean of linear functions: weights of functions, such that the least value of their mean
 * over a simplex is largest. This is a matrix game, solved by the revised simplex method. */
#ifndef PST_PARTITION_SEARCH_GAME_H
#define PST_PARTITION_SEARCH_GAME_H
#include "base/status.h"
#include <stdint.h>

typedef struct pst_search_game pst_search_game;
/* Opens a game over the simplex of points x[0..n_row) that are not negative and have the sum 1,
 * without functions. most: maximum number of functions. The caller closes it. ENOMEM. */
pst_status pst_search_game_open(uint32_t n_row, uint32_t most, pst_search_game **game);
void pst_search_game_close(pst_search_game *game);
/* Adds a function: its values at the corners of the simplex, value[0..n_row), copied. Returns 0 if
 * there is no place for it. */
int pst_search_game_add(pst_search_game *game, const double *value);
/* Solves the game with all functions so far; at least one. Returns the largest least value. x:
 * [n_row] a point at which no function of those with a weight is larger. */
double pst_search_game_solve(pst_search_game *game, double *x);
/* Returns about how many operations all solutions took. */
uint64_t pst_search_game_effort(const pst_search_game *game);
/* Sets weight[0..n] of the functions so far, which are not negative and have the sum 1; after
 * pst_search_game_solve. Returns n. */
uint32_t pst_search_game_weights(const pst_search_game *game, double *weight);
#endif
