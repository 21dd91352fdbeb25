
      export interface PossibleTypesResultData {
        possibleTypes: {
          [key: string]: string[]
        }
      }
      const result: PossibleTypesResultData = {
  "possibleTypes": {
    "Node": [
      "Post",
      "User"
    ],
    "Reactable": [
      "Post"
    ]
  }
};
      export default result;
    