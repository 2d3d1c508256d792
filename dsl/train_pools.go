package dsl

// Pools says of each pool that the pipeline's own training steps may use which of them is the first in the document to do so.
func (p *Program) Pools() map[string]string {
	used := map[string]string{}
	for _, s := range p.steps {
		train, ok := s.known.(*Train)
		if !ok {
			continue
		}
		for _, pool := range train.Pool {
			if used[pool] == "" {
				used[pool] = s.ID
			}
		}
	}
	return used
}
