package pipelines

// Version is part of the key of every step's result. It is raised when a new version of Sluice makes something else of the same spec and
// inputs, so that what earlier ones made is not taken over.
const Version = "7"
