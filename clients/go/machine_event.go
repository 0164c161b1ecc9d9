package tidings

// takeEvent applies one event of the stream. The type alone decides what
// happens, data only refines it: an old app has to survive a newer server.
func (m *Machine) takeEvent(msg Message, keepID bool) []Effect {
	if m.outcome == ResultCompleted {
		return nil
	}
	// After an error the stream is on its way out. Only the document that came
	// after all is still news.
	if m.connection == Closed && (m.outcome != ResultFailed || msg.Event != "completed") {
		return nil
	}
	data := readObject(msg.Data)
	if session, ok := data.str("session_id"); ok && session != m.session {
		return nil
	}
	if data.isTrue("reset") {
		m.lastSeq = -1
	}
	if seq, ok := data.integer("seq", 0, maxSafeInteger); ok {
		if m.lastSeq >= 0 && seq <= m.lastSeq {
			return nil
		}
		m.lastSeq = seq
	}
	if !keepID {
		m.lastEventID = msg.ID
	}
	m.failures = 0
	if m.connection != Closed {
		m.connection = Open
	}
	if known(msg.Event) {
		e := readEvent(msg.Event, data)
		m.event = &e
	}
	return m.transition(msg.Event, data)
}

func known(event string) bool {
	switch event {
	case "queued", "processing", "retrying", "completed", "error", "idle":
		return true
	}
	return false
}

func (m *Machine) transition(event string, data object) []Effect {
	switch event {
	case "queued", "processing":
		m.resubscribeAt = -1
		m.wait(Loading, 0)
	case "retrying":
		m.resubscribeAt = -1
		attempt := 0
		if m.phase == Retrying {
			attempt = m.attempt
		}
		if n, ok := data.integer("attempt", 1, 1000); ok {
			attempt = int(n)
		}
		m.wait(Retrying, attempt)
	case "completed":
		return m.finish(ResultCompleted, Done)
	case "error":
		return m.finish(ResultFailed, Failed)
	case "idle":
		m.wait(Loading, 0)
		if data.isTrue("stays_open") && m.connection != Closed {
			m.resubscribeAt = -1
		} else {
			m.resubscribeAt = m.now + idleDelay
		}
	}
	return nil
}

func (m *Machine) wait(p Phase, attempt int) {
	if m.phase != Dismissed {
		m.phase, m.attempt = p, attempt
	}
}

func (m *Machine) finish(r Result, p Phase) []Effect {
	m.resubscribeAt, m.outcome = -1, r
	m.show(p)
	if m.connection == Closed {
		return nil
	}
	m.connection = Closed
	return []Effect{Close}
}
