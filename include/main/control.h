/* Control's thread: signals, and the loop on which the console lives. */
#pragma once

/* From here on signals are noted; they are obeyed when the loop runs. Before any thread. */
void control_prepare(void);
/* Runs until a shutdown is through. The calling thread becomes control's. */
void control_run(void);
