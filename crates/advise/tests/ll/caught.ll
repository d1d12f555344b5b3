; ModuleID = 'caught.cc'
source_filename = "caught.cc"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

%struct.Guard = type { i8 }

$_ZN5GuardD2Ev = comdat any

$_ZTW5depth = comdat any

@depth = dso_local thread_local global i32 0, align 4, !dbg !0
@_ZTIi = external constant ptr

; Function Attrs: mustprogress noinline norecurse uwtable
define dso_local noundef i32 @main() #0 personality ptr @__gxx_personality_v0 !dbg !14 {
  %1 = alloca i32, align 4
  %2 = alloca i32, align 4
  %3 = alloca %struct.Guard, align 1
  %4 = alloca ptr, align 8
  %5 = alloca i32, align 4
  %6 = alloca i32, align 4
  %7 = alloca i32, align 4
  store i32 0, ptr %1, align 4
    #dbg_declare(ptr %2, !18, !DIExpression(), !20)
  store i32 0, ptr %2, align 4, !dbg !20
  br label %8, !dbg !21

8:                                                ; preds = %32, %0
  %9 = load i32, ptr %2, align 4, !dbg !22
  %10 = icmp slt i32 %9, 3, !dbg !24
  br i1 %10, label %11, label %36, !dbg !25

11:                                               ; preds = %8
    #dbg_declare(ptr %3, !26, !DIExpression(), !34)
  %12 = invoke i32 @shmem_checkpoint_all()
          to label %13 unwind label %15, !dbg !35

13:                                               ; preds = %11
  invoke void @_Z6refusei(i32 noundef %12)
          to label %14 unwind label %15, !dbg !37

14:                                               ; preds = %13
  br label %28, !dbg !38

15:                                               ; preds = %13, %11
  %16 = landingpad { ptr, i32 }
          cleanup
          catch ptr @_ZTIi, !dbg !39
  %17 = extractvalue { ptr, i32 } %16, 0, !dbg !39
  store ptr %17, ptr %4, align 8, !dbg !39
  %18 = extractvalue { ptr, i32 } %16, 1, !dbg !39
  store i32 %18, ptr %5, align 4, !dbg !39
  br label %19, !dbg !39

19:                                               ; preds = %15
  %20 = load i32, ptr %5, align 4, !dbg !38
  %21 = call i32 @llvm.eh.typeid.for.p0(ptr @_ZTIi) #6, !dbg !38
  %22 = icmp eq i32 %20, %21, !dbg !38
  br i1 %22, label %23, label %35, !dbg !38

23:                                               ; preds = %19
    #dbg_declare(ptr %6, !40, !DIExpression(), !41)
  %24 = load ptr, ptr %4, align 8, !dbg !38
  %25 = call ptr @__cxa_begin_catch(ptr %24) #6, !dbg !38
  %26 = load i32, ptr %25, align 4, !dbg !38
  store i32 %26, ptr %6, align 4, !dbg !38
  %27 = load i32, ptr %6, align 4, !dbg !42
  store i32 %27, ptr %1, align 4, !dbg !44
  store i32 1, ptr %7, align 4
  call void @__cxa_end_catch() #6, !dbg !45
  br label %29

28:                                               ; preds = %14
  store i32 0, ptr %7, align 4, !dbg !46
  br label %29, !dbg !46

29:                                               ; preds = %28, %23
  call void @_ZN5GuardD2Ev(ptr noundef nonnull align 1 dereferenceable(1) %3) #6, !dbg !46
  %30 = load i32, ptr %7, align 4
  switch i32 %30, label %44 [
    i32 0, label %31
    i32 1, label %37
  ]

31:                                               ; preds = %29
  br label %32, !dbg !47

32:                                               ; preds = %31
  %33 = load i32, ptr %2, align 4, !dbg !48
  %34 = add nsw i32 %33, 1, !dbg !48
  store i32 %34, ptr %2, align 4, !dbg !48
  br label %8, !dbg !49, !llvm.loop !50

35:                                               ; preds = %19
  call void @_ZN5GuardD2Ev(ptr noundef nonnull align 1 dereferenceable(1) %3) #6, !dbg !46
  br label %39, !dbg !46

36:                                               ; preds = %8
  store i32 0, ptr %1, align 4, !dbg !53
  br label %37, !dbg !53

37:                                               ; preds = %36, %29
  %38 = load i32, ptr %1, align 4, !dbg !54
  ret i32 %38, !dbg !54

39:                                               ; preds = %35
  %40 = load ptr, ptr %4, align 8, !dbg !46
  %41 = load i32, ptr %5, align 4, !dbg !46
  %42 = insertvalue { ptr, i32 } poison, ptr %40, 0, !dbg !46
  %43 = insertvalue { ptr, i32 } %42, i32 %41, 1, !dbg !46
  resume { ptr, i32 } %43, !dbg !46

44:                                               ; preds = %29
  unreachable
}

declare void @_Z6refusei(i32 noundef) #1

declare i32 @shmem_checkpoint_all() #1

declare i32 @__gxx_personality_v0(...)

; Function Attrs: nounwind memory(none)
declare i32 @llvm.eh.typeid.for.p0(ptr) #2

declare ptr @__cxa_begin_catch(ptr)

declare void @__cxa_end_catch()

; Function Attrs: mustprogress noinline nounwind uwtable
define linkonce_odr dso_local void @_ZN5GuardD2Ev(ptr noundef nonnull align 1 dereferenceable(1) %0) unnamed_addr #3 comdat align 2 !dbg !55 {
  %2 = alloca ptr, align 8
  store ptr %0, ptr %2, align 8
    #dbg_declare(ptr %2, !56, !DIExpression(), !58)
  %3 = load ptr, ptr %2, align 8
  %4 = call align 4 ptr @llvm.threadlocal.address.p0(ptr align 4 @depth), !dbg !59
  %5 = load i32, ptr %4, align 4, !dbg !61
  %6 = add nsw i32 %5, -1, !dbg !61
  store i32 %6, ptr %4, align 4, !dbg !61
  ret void, !dbg !62
}

; Function Attrs: nocallback nofree nosync nounwind speculatable willreturn memory(none)
declare nonnull ptr @llvm.threadlocal.address.p0(ptr nonnull) #4

; Function Attrs: noinline uwtable
define weak_odr hidden noundef ptr @_ZTW5depth() #5 comdat {
  %1 = call align 4 ptr @llvm.threadlocal.address.p0(ptr align 4 @depth)
  ret ptr %1
}

attributes #0 = { mustprogress noinline norecurse uwtable "frame-pointer"="all" "min-legal-vector-width"="0" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-cpu"="x86-64" "target-features"="+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87" "tune-cpu"="generic" }
attributes #1 = { "frame-pointer"="all" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-cpu"="x86-64" "target-features"="+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87" "tune-cpu"="generic" }
attributes #2 = { nounwind memory(none) }
attributes #3 = { mustprogress noinline nounwind uwtable "frame-pointer"="all" "min-legal-vector-width"="0" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-cpu"="x86-64" "target-features"="+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87" "tune-cpu"="generic" }
attributes #4 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #5 = { noinline uwtable "frame-pointer"="all" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-cpu"="x86-64" "target-features"="+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87" "tune-cpu"="generic" }
attributes #6 = { nounwind }

!llvm.dbg.cu = !{!2}
!llvm.module.flags = !{!6, !7, !8, !9, !10, !11, !12}
!llvm.ident = !{!13}

!0 = !DIGlobalVariableExpression(var: !1, expr: !DIExpression())
!1 = distinct !DIGlobalVariable(name: "depth", scope: !2, file: !3, line: 4, type: !5, isLocal: false, isDefinition: true)
!2 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus_14, file: !3, producer: "Debian clang version 19.1.7 (3~deb12u1)", isOptimized: false, runtimeVersion: 0, emissionKind: FullDebug, globals: !4, splitDebugInlining: false, nameTableKind: None)
!3 = !DIFile(filename: "caught.cc", directory: ".", checksumkind: CSK_MD5, checksum: "0657bc00b0a288953ee547dba04a0173")
!4 = !{!0}
!5 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
!6 = !{i32 7, !"Dwarf Version", i32 5}
!7 = !{i32 2, !"Debug Info Version", i32 3}
!8 = !{i32 1, !"wchar_size", i32 4}
!9 = !{i32 8, !"PIC Level", i32 2}
!10 = !{i32 7, !"PIE Level", i32 2}
!11 = !{i32 7, !"uwtable", i32 2}
!12 = !{i32 7, !"frame-pointer", i32 2}
!13 = !{!"Debian clang version 19.1.7 (3~deb12u1)"}
!14 = distinct !DISubprogram(name: "main", scope: !3, file: !3, line: 10, type: !15, scopeLine: 10, flags: DIFlagPrototyped, spFlags: DISPFlagDefinition, unit: !2, retainedNodes: !17)
!15 = !DISubroutineType(types: !16)
!16 = !{!5}
!17 = !{}
!18 = !DILocalVariable(name: "i", scope: !19, file: !3, line: 11, type: !5)
!19 = distinct !DILexicalBlock(scope: !14, file: !3, line: 11, column: 5)
!20 = !DILocation(line: 11, column: 14, scope: !19)
!21 = !DILocation(line: 11, column: 10, scope: !19)
!22 = !DILocation(line: 11, column: 21, scope: !23)
!23 = distinct !DILexicalBlock(scope: !19, file: !3, line: 11, column: 5)
!24 = !DILocation(line: 11, column: 23, scope: !23)
!25 = !DILocation(line: 11, column: 5, scope: !19)
!26 = !DILocalVariable(name: "guard", scope: !27, file: !3, line: 12, type: !28)
!27 = distinct !DILexicalBlock(scope: !23, file: !3, line: 11, column: 33)
!28 = distinct !DICompositeType(tag: DW_TAG_structure_type, name: "Guard", file: !3, line: 6, size: 8, flags: DIFlagTypePassByReference | DIFlagNonTrivial, elements: !29, identifier: "_ZTS5Guard")
!29 = !{!30}
!30 = !DISubprogram(name: "~Guard", scope: !28, file: !3, line: 7, type: !31, scopeLine: 7, flags: DIFlagPrototyped, spFlags: 0)
!31 = !DISubroutineType(types: !32)
!32 = !{null, !33}
!33 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !28, size: 64, flags: DIFlagArtificial | DIFlagObjectPointer)
!34 = !DILocation(line: 12, column: 15, scope: !27)
!35 = !DILocation(line: 14, column: 20, scope: !36)
!36 = distinct !DILexicalBlock(scope: !27, file: !3, line: 13, column: 13)
!37 = !DILocation(line: 14, column: 13, scope: !36)
!38 = !DILocation(line: 15, column: 9, scope: !36)
!39 = !DILocation(line: 20, column: 1, scope: !36)
!40 = !DILocalVariable(name: "code", scope: !27, file: !3, line: 15, type: !5)
!41 = !DILocation(line: 15, column: 22, scope: !27)
!42 = !DILocation(line: 16, column: 20, scope: !43)
!43 = distinct !DILexicalBlock(scope: !27, file: !3, line: 15, column: 28)
!44 = !DILocation(line: 16, column: 13, scope: !43)
!45 = !DILocation(line: 17, column: 9, scope: !43)
!46 = !DILocation(line: 18, column: 5, scope: !23)
!47 = !DILocation(line: 18, column: 5, scope: !27)
!48 = !DILocation(line: 11, column: 29, scope: !23)
!49 = !DILocation(line: 11, column: 5, scope: !23)
!50 = distinct !{!50, !25, !51, !52}
!51 = !DILocation(line: 18, column: 5, scope: !19)
!52 = !{!"llvm.loop.mustprogress"}
!53 = !DILocation(line: 19, column: 5, scope: !14)
!54 = !DILocation(line: 20, column: 1, scope: !14)
!55 = distinct !DISubprogram(name: "~Guard", linkageName: "_ZN5GuardD2Ev", scope: !28, file: !3, line: 7, type: !31, scopeLine: 7, flags: DIFlagPrototyped, spFlags: DISPFlagDefinition, unit: !2, declaration: !30, retainedNodes: !17)
!56 = !DILocalVariable(name: "this", arg: 1, scope: !55, type: !57, flags: DIFlagArtificial | DIFlagObjectPointer)
!57 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !28, size: 64)
!58 = !DILocation(line: 0, scope: !55)
!59 = !DILocation(line: 7, column: 16, scope: !60)
!60 = distinct !DILexicalBlock(scope: !55, file: !3, line: 7, column: 14)
!61 = !DILocation(line: 7, column: 21, scope: !60)
!62 = !DILocation(line: 7, column: 25, scope: !55)
