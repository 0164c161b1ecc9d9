//go:build !nosdk

package provider

import (
	"fmt"

	"github.com/tidings/tidings/jobs/model"
)

func open(provider, name string, a Access) (model.Provider, error) {
	switch provider {
	case "anthropic":
		return newAnthropic(name, a), nil
	case "openai":
		return newOpenAI(name, a), nil
	case "gemini":
		return newGemini(name, a)
	}
	return nil, fmt.Errorf("model: there is no provider %q", provider)
}
