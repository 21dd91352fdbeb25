// What graphql-eslint recommends for schemas, and Relay's specifications. What is
// off, narrowed or added says why.
import graphql from '@graphql-eslint/eslint-plugin';

export default [
  {
    files: ['**/*.graphqls'],
    plugins: { '@graphql-eslint': graphql },
    languageOptions: { parser: graphql.parser, parserOptions: { graphQLConfig: { schema: 'schema.graphqls' } } },
    rules: {
      ...graphql.configs['flat/schema-recommended'].rules,
      ...graphql.configs['flat/schema-relay'].rules,

      // Off: it wants one form everywhere. Here types and fields have blocks, and
      // arguments a line, since a block between parentheses hides the field.
      '@graphql-eslint/description-style': 'off',

      // Narrowed: the feed is read forwards only. A cursor is a place in an order
      // that grows at its top, and nobody pages back further than where they came from.
      '@graphql-eslint/relay-arguments': ['error', { includeBoth: false }],

      // Narrowed: `nodes` of a connection is for who needs no cursors, as in
      // GitHub's schema, and Query.nodes is Relay's own.
      '@graphql-eslint/relay-edge-types': [
        'error',
        { withEdgeSuffix: true, shouldImplementNode: true, listTypeCanWrapOnlyEdgeType: false },
      ],

      // Narrowed: what has an id is cached by it. A page, its edges and the answer
      // of a mutation are nothing of their own that a cache could hold.
      '@graphql-eslint/strict-id-in-types': [
        'error',
        { exceptions: { types: ['PageInfo'], suffixes: ['Connection', 'Edge', 'Payload'] } },
      ],

      // Added: the schema is the manual, so everything in it is described.
      '@graphql-eslint/require-description': [
        'error',
        {
          types: true, rootField: true, DirectiveDefinition: true, EnumValueDefinition: true,
          FieldDefinition: true, InputValueDefinition: true,
        },
      ],
    },
  },
];
