import type { CodegenConfig } from '@graphql-codegen/cli';

export default {
  schema: '../schema.graphqls',
  documents: 'src/operations.ts',
  generates: {
    'src/gql/': {
      preset: 'client',
      presetConfig: { fragmentMasking: false },
      config: {
        useTypeImports: true,
        strictScalars: true,
        scalars: { ID: 'string', DateTime: 'string' },
        // Apollo's cache asks for __typename everywhere but at the root.
        nonOptionalTypename: true,
        skipTypeNameForRoot: true,
      },
    },
    'src/gql/possible-types.ts': { plugins: ['fragment-matcher'] },
  },
} satisfies CodegenConfig;
