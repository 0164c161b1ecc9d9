//go:build nosdk

package provider

import (
	"errors"

	"github.com/tidings/tidings/jobs/model"
)

func open(string, string, Access) (model.Provider, error) {
	return nil, errors.New("model: this program was built without the providers' SDKs; build it without the tag nosdk")
}
