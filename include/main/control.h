/* Control's thread: signals, and the loop on which the console lives. */
#pragma once

/* Runs until a shutdown is through. The calling thread becomes control's. */
void control_run(void);
