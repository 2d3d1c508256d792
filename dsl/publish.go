package dsl

// Publishes returns the outputs that a step publishes, each with the name it is published under.
func (p *Program) Publishes(id string) map[string]string {
	if s := p.byID[id]; s != nil {
		return s.Publish
	}
	return nil
}
