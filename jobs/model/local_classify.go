package model

import "math"

// The labels of a classification, in the order that decides a tie.
var localLabels = [...]string{"problem", "request", "decision", "question", "information"}

const (
	isProblem = iota
	isRequest
	isDecision
	isAsking
	isInformation
)

// classify adds up what each sentence gives away: question marks and question
// words, words of failure, of asking for something, of having decided. The words
// are of the language found; without one of ours only punctuation and structure
// speak. Who began a conversation says what it is about, so the first turns with
// something to say count most; an assistant's turns count little.
//
// Confidence is the winner's share of all evidence, lowered when there is
// little of it: one question mark in one sentence is no certainty, and a text
// that gives nothing away is information with a low confidence. It is never
// above 0.9: no model of this kind knows more.
func (d *document) classify() classificationOutput {
	var score [len(localLabels)]float64
	sentences := d.sentences
	opening := 0
	if first, _ := d.ends(); first != nil {
		opening = first.turn
	}
	// Ends of long material say what it is; the middle repeats it.
	const ends = 200
	for i, s := range sentences {
		if i >= ends && i < len(sentences)-ends {
			continue
		}
		w := d.weight(s, opening)
		for label, v := range d.evidence(s) {
			score[label] += w * v
		}
	}
	best, sum := isInformation, 0.0
	for label, v := range score {
		sum += v
		if v > score[best] || v == score[best] && label < best {
			best = label
		}
	}
	if sum == 0 {
		return classificationOutput{localLabels[isInformation], 0.2}
	}
	confidence := score[best] / sum * (1 - math.Exp(-1.2*score[best]))
	most := 0.9
	if best == isInformation {
		// Nothing found is weaker than something found, and where no words are known
		// little could be.
		if most = 0.75; d.lex == nil {
			most = 0.4
		}
	}
	confidence = min(max(confidence, 0.2), most)
	return classificationOutput{localLabels[best], math.Round(confidence*100) / 100}
}

func (d *document) weight(s *sentence, opening int) float64 {
	switch {
	case len(d.turns) == 1:
		return 1
	case len(s.terms) < 3:
		return 0.5
	case s.turn <= opening:
		return 2
	case d.turns[s.turn].speaker == "assistant":
		return 0.2
	}
	return 1
}

// evidence is what one sentence says for each label.
func (d *document) evidence(s *sentence) (e [len(localLabels)]float64) {
	text := s.text()
	asks := isQuestion(text)
	var problem, request, decision int
	if d.lex != nil {
		folded := foldWords(text, d.lex)
		problem = countCues(d.lex.problem, folded)
		request = countCues(d.lex.request, folded)
		decision = countCues(d.lex.decision, folded)
		first := firstWord(folded)
		asks = asks || s.start == 0 && !endsSentence(text) && d.lex.ask[first]
		if d.lex.do[first] && !d.lex.ask[first] && len(d.turns) == 1 {
			e[isRequest] += 0.4
		}
	}
	if s.block.code {
		problem++ // people paste code when something is wrong with it
	}
	e[isProblem] = math.Min(float64(problem), 2)
	e[isRequest] += 0.9 * math.Min(float64(request), 2)
	if decision > 0 {
		e[isDecision] = 1.6
		if len(d.turns) > 1 {
			e[isDecision] = 2.4 // what a conversation came to, whatever was asked before
		}
	}
	if asks {
		e[isAsking] = 1
		if problem+request > 0 {
			// "Can you help me, it fails?" asks in form only.
			e[isAsking] = 0.5
		}
	} else if problem+request+decision == 0 && len(s.terms) >= 3 {
		e[isInformation] = 0.25
	}
	return e
}
