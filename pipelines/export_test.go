package pipelines

// RunOn has the graphs of this process run by another runner of Beam's, by its name.
func RunOn(runner string) { ownRunner = runner }
