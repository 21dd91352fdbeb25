# golangci-lint is built once, for the Go at hand.
lint_version = v2.15.0
golangci = .engines/bin/golangci-lint-$(lint_version)-$(shell go env GOVERSION)

.PHONY: generate test race bench lint faults
generate: ; go generate ./...
test:     ; go test -count=1 ./...
race:     ; go test -count=1 -race ./archive ./auth ./counter ./embedded ./feed ./graph
faults:   ; go test -count=1 -v -timeout 15m ./faults -args -length 3m
bench:    ; go test -count=1 -run '^$$' -bench . -benchtime 1x ./...
lint:     $(golangci) ; files=$$(gofmt -l .) && test -z "$$files" || { echo "gofmt: $$files"; exit 1; } ; go vet ./... && $(golangci) run ./...

$(golangci):
	GOBIN=$(CURDIR)/.engines/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(lint_version)
	mv .engines/bin/golangci-lint $@
