# golangci-lint is built once, for the Go at hand.
lint_version = v2.15.0
golangci = .engines/bin/golangci-lint-$(lint_version)-$(shell go env GOVERSION)

.PHONY: generate web test page screenshots race bench lint faults checks baseline fuzz
generate: ; go generate ./...
web:      web/node_modules/.package-lock.json ; cd web && npm run -s build
test:     ; go test -count=1 ./...
page:     web/node_modules/.package-lock.json ; cd web && npm run -s test
screenshots: web/node_modules/.package-lock.json ; cd web && npm run -s screenshots
race:     ; go test -count=1 -race ./archive ./auth ./counter ./edge ./embedded ./feed ./graph ./leaving
faults:   ; go test -count=1 -v -timeout 15m ./faults -args -length 3m
bench:    ; go test -count=1 -run '^$$' -bench . -benchtime 1x ./...
lint:     $(golangci) ; files=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l) && test -z "$$files" || { echo "gofmt: $$files"; exit 1; } ; go vet ./... && $(golangci) run ./...
checks:   checks/node_modules/.package-lock.json ; cd checks && npm run -s lint && npm run -s diff && npm run -s audit
baseline: ; cp schema.graphqls checks/schema.baseline.graphqls
fuzz:     ; scripts/fuzz 60s

# What the checks and the page need is installed when the lock file has changed, and only for them.
%/node_modules/.package-lock.json: %/package-lock.json
	cd $* && npm ci --prefer-offline --no-progress --loglevel=error && touch node_modules/.package-lock.json

$(golangci):
	GOBIN=$(CURDIR)/.engines/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(lint_version)
	mv .engines/bin/golangci-lint $@
