"""One module a stage. Each has ``run(step, outputs)``: read the inputs of the step, call `mining`,
write the outputs, and return what the driver needs to know."""
