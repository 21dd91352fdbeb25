# golangci-lint is built once, for the Go at hand.
lint_version = v2.15.0
golangci = .engines/bin/golangci-lint-$(lint_version)-$(shell go env GOVERSION)

.PHONY: generate test race bench lint faults checks baseline fuzz
generate: ; go generate ./...
test:     ; go test -count=1 ./...
race:     ; go test -count=1 -race ./archive ./auth ./counter ./edge ./embedded ./feed ./graph ./leaving
faults:   ; go test -count=1 -v -timeout 15m ./faults -args -length 3m
bench:    ; go test -count=1 -run '^$$' -bench . -benchtime 1x ./...
lint:     $(golangci) ; files=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l) && test -z "$$files" || { echo "gofmt: $$files"; exit 1; } ; go vet ./... && $(golangci) run ./...
checks:   checks/node_modules/.package-lock.json ; cd checks && npm run -s lint && npm run -s diff && npm run -s audit
baseline: ; cp schema.graphqls checks/schema.baseline.graphqls
fuzz:     ; scripts/fuzz 60s

# What the checks need is installed when the lock file has changed, and only for them.
checks/node_modules/.package-lock.json: checks/package-lock.json
	cd checks && npm ci --prefer-offline --no-progress --loglevel=error && touch node_modules/.package-lock.json

$(golangci):
	GOBIN=$(CURDIR)/.engines/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(lint_version)
	mv .engines/bin/golangci-lint $@
