/* What a number means that is shown to people and to programs: rows of figures name its unit, so that a metric's name and scale come
 * from the row that a SHOW column comes from. */
#pragma once

enum figure_unit {
	FIGURE_COUNT,
	FIGURE_BYTES,
	FIGURE_USEC,     /* microseconds; told in seconds outside of SHOW */
	FIGURE_SECONDS,
	FIGURE_PERMILLE, /* told as a ratio of 0 to 1 */
	FIGURE_MILLI,    /* thousandths of a number without a unit */
};

enum figure_kind { FIGURE_GAUGE, FIGURE_COUNTER };
